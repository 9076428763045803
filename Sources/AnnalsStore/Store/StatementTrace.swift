import AnnalsCore
package import GRDB
public import Logging

/// Logs SQL statements with their duration, through swift-log.
///
///     var configuration = Store.Configuration()
///     configuration.trace = StatementTrace(Logger(label: "sql"), slowerThan: .milliseconds(20))
///
/// All statements of the store's connections are traced, including those on Annals' own tables. Values bound to statements are user
/// data and are left out, unless `showsValues` is true.
public struct StatementTrace: Sendable {
    public var logger: Logger
    public var level: Logger.Level
    /// Only statements that took at least this long.
    public var threshold: Duration
    /// Replaces parameters by their values. The log then contains user data, so use it only on a developer's own machine.
    public var showsValues: Bool

    public init(_ logger: Logger, level: Logger.Level = .debug, slowerThan threshold: Duration = .zero, showsValues: Bool = false) {
        self.logger = logger
        self.level = level
        self.threshold = threshold
        self.showsValues = showsValues
    }

    package func install(_ db: Database) {
        db.trace(options: .profile) { event in log(event) }
    }

    func log(_ event: Database.TraceEvent) {
        guard case .profile(let statement, let seconds) = event else { return }
        let duration = Duration.seconds(seconds)
        guard duration >= threshold else { return }
        logger.log(
            level: level, "\(showsValues ? statement.expandedSQL : statement.sql)",
            metadata: ["milliseconds": "\(duration / .milliseconds(1))"])
    }
}
