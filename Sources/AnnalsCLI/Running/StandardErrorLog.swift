import Foundation
import Logging

/// The format of log lines.
enum LogFormat: String, CaseIterable, Sendable {
    /// Time, level, message, and metadata as `name=value`.
    case text
    /// One JSON object a line with the same content: `time`, `level`, `message` and a member for each metadata name.
    case json
}

/// Writes log lines to standard error.
struct StandardErrorLog: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level
    var format = LogFormat.text

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let details = metadata.merging(event.metadata ?? [:]) { $1 }
        let milliseconds = Int64(Date().timeIntervalSince1970 * 1000)
        let line = line(Timestamp.text(milliseconds), "\(event.level)", ErrorReport.uncapitalised("\(event.message)"), details)
        StandardStreams.shared.writeError(line + "\n")
    }

    private func line(_ time: String, _ level: String, _ message: String, _ details: Logger.Metadata) -> String {
        let named = details.map { (Self.name($0.key), "\($0.value)") }.sorted { $0.0 < $1.0 }
        switch format {
        case .text:
            return "\(time) \(level) " + PrintableText.of(message + named.map { " \($0)=\($1)" }.joined())
        case .json:
            // Metadata with a reserved name gets an underscore, so that it does not replace the fixed members.
            let members = named.map { JSON.Member(key: Self.fixed.contains($0.0) ? "_" + $0.0 : $0.0, value: .text($0.1)) }
            let begin = JSON.object(["time": .text(time), "level": .text(level), "message": .text(message)])
            guard case .object(let fixed) = begin else { return begin.description }
            return JSON.object(fixed + members).description
        }
    }

    private static let fixed: Set<String> = ["time", "level", "message"]

    /// The server library uses this name for a request's id.
    private static func name(_ key: String) -> String { key == "hb.request.id" ? "request" : key }

    /// A logger with a name and a level.
    static func logger(_ label: String, level: Logger.Level = .notice, format: LogFormat = .text) -> Logger {
        Logger(label: label) { _ in StandardErrorLog(logLevel: level, format: format) }
    }
}
