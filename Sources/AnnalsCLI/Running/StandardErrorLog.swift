import Foundation
import Logging

/// Log lines on standard error: time, level, message, and what belongs to it.
struct StandardErrorLog: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let details = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        let milliseconds = Int64(Date().timeIntervalSince1970 * 1000)
        let line =
            "\(Timestamp.text(milliseconds)) \(event.level) \(PrintableText.of("\(ErrorReport.uncapitalised("\(event.message)"))\(details)"))"
        StandardStreams.shared.writeError(line + "\n")
    }

    /// A logger of the given name and level.
    static func logger(_ label: String, level: Logger.Level = .notice) -> Logger {
        Logger(label: label) { _ in StandardErrorLog(logLevel: level) }
    }
}
