import AnnalsCore
package import GRDB
public import Logging

/// Logs SQL statements with the time they took, through swift-log.
///
///     var configuration = Store.Configuration()
///     configuration.trace = StatementTrace(Logger(label: "sql"), slowerThan: .milliseconds(20))
///
/// Every statement of the store's connections is traced, those of Annals' own tables too. Values that are bound to a statement
/// are left out, unless `showsValues` says otherwise: they are the user's.
public struct StatementTrace: Sendable {
    public var logger: Logger
    public var level: Logger.Level
    /// Only statements that took at least this long.
    public var threshold: Duration
    /// Puts values in the place of parameters. Such a log holds what the store holds: for a developer's own machine.
    public var showsValues: Bool

    public init(_ logger: Logger, level: Logger.Level = .debug, slowerThan threshold: Duration = .zero, showsValues: Bool = false) {
        self.logger = logger
        self.level = level
        self.threshold = threshold
        self.showsValues = showsValues
    }

    package func install(_ db: Database) {
        db.trace(options: .profile) { event in
            guard case .profile(let statement, let seconds) = event else { return }
            let duration = Duration.seconds(seconds)
            guard duration >= threshold else { return }
            logger.log(
                level: level, "\(showsValues ? statement.expandedSQL : statement.sql)",
                metadata: ["milliseconds": "\(duration / .milliseconds(1))"])
        }
    }
}
