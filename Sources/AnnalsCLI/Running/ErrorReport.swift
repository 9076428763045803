import AnnalsCore
import AnnalsSync
import ArgumentParser
import Foundation
import RelayLog

/// The line that says why a command failed, and its exit status.
struct ErrorReport: Equatable {
    var status: ExitStatus
    /// nil if the command has already printed why.
    var line: String?

    /// - Parameter root: the root command, which formats errors about its arguments.
    init(_ error: any Error, root: any ParsableCommand.Type) {
        switch error {
        case is CheckFailed:
            self.init(status: .checkFailed, line: nil)
        case is CancellationError:
            self.init(status: .interrupted, line: nil)
        case let error as AnnalsError:
            self.init(error)
        case let error as TransportError:
            self.init(error.annalsError)
        case let error as RelayLogError:
            self.init(Self.translate(error))
        case let error as ExitCode:
            self.init(status: ExitStatus(rawValue: error.rawValue) ?? .defect, line: nil)
        case let error as CocoaError:
            self.init(Self.translate(error))
        default:
            self.init(parsing: error, root: root)
        }
    }

    private init(status: ExitStatus, line: String?) {
        self.status = status
        self.line = line
    }

    private init(_ error: AnnalsError) {
        guard error.code != .cancelled else {
            self.init(status: .interrupted, line: nil)
            return
        }
        self.init(status: ExitStatus(error.code), line: Self.line(error.message, hint: Self.hint(for: error), note: error.requestNote))
    }

    /// The hint. Some hints of the relay address authors of clients; they are replaced by hints about the command line.
    private static func hint(for error: AnnalsError) -> String? {
        switch (error.code, error.operation) {
        case (.spaceNotFound, "sync"): "Check the space's name; annals join creates a new space"
        case (.notPermitted, "sync"): "Give a token with --credential-file or ANNALS_CREDENTIAL; annals relay token create makes one"
        default: error.commandHint ?? error.hint
        }
    }

    /// The message of the argument parser without its usage text. The hint says which help to read.
    private init(parsing error: any Error, root: any ParsableCommand.Type) {
        let status = ExitStatus(rawValue: root.exitCode(for: error).rawValue) ?? .defect
        guard status == .usage else {
            self.init(status: .defect, line: Self.line("unexpected error, please report it: \(root.message(for: error))", hint: nil))
            return
        }
        let help = root.fullMessage(for: error).split(separator: "\n").compactMap { line -> String? in
            guard let start = line.range(of: "See '"), let end = line.range(of: "' for more") else { return nil }
            return String(line[start.upperBound..<end.lowerBound])
        }
        var message = root.message(for: error)
        // The root command has no arguments, so the first one is meant as a command.
        if help.last == "annals --help", message.lowercased().contains("unexpected argument"),
            let name = message.split(separator: "'", omittingEmptySubsequences: false).dropFirst().first
        {
            message = "there is no command '\(name)'"
            let commands = root.configuration.subcommands.compactMap { $0.configuration.commandName }
            if let near = SimilarName.of(String(name), among: commands) { message += ". Did you mean '\(near)'?" }
        }
        if let form = Self.forms.first(where: { message.contains("\($0.key)'") })?.value {
            message = "\(message.trimmingCharacters(in: ["."])): give \(form)"
        }
        if message.contains("<key>"), CommandLine.arguments.contains(where: { $0.hasPrefix("-") && Double($0) != nil }) {
            message = "\(message.trimmingCharacters(in: ["."])): write -- before keys that begin with -"
        }
        message = Self.choicesInARow(message)
        self.init(status: .usage, line: Self.line(Self.uncapitalised(message), hint: help.last.map { "See \($0)" }))
    }

    /// How values of these kinds are written.
    private static let forms = [
        "<duration>": "a number and a unit, such as 5m, 12h, 30d or 8w", "<percent>": "a share up to 100%, such as 20%",
        "<origin>": "local, external, imported, migration or rebase",
    ]

    /// The argument parser lists choices as lines.
    private static func choicesInARow(_ message: String) -> String {
        let lines = message.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) }
        guard lines.count > 1, lines[1].hasPrefix("- ") else { return message }
        let choices = lines.dropFirst().map { $0.hasPrefix("- ") ? String($0.dropFirst(2)) : $0 }
        return lines[0] + " " + choices.joined(separator: ", ")
    }

    /// For the operator's commands, which open the relay's storage directly.
    private static func translate(_ error: RelayLogError) -> AnnalsError {
        switch error {
        case .spaceNotFound: AnnalsError(.spaceNotFound, "there is no such space", hint: "See annals relay spaces")
        case .databaseAway(let reason):
            AnnalsError(.busy, "the relay's database does not answer: \(reason)", hint: "Try again", isRetryable: true)
        case .overloaded: AnnalsError(.busy, "the relay's database does not answer", hint: "Try again", isRetryable: true)
        case .diskFull: AnnalsError(.diskFull, "the relay's disk is full", hint: "Free disk space and try again; nothing was changed")
        case .storage(let reason): AnnalsError(.cannotCreate, "the relay's storage cannot be used: \(reason)")
        default: AnnalsError(.defect, "unexpected error of the relay's storage, please report it: \(error)")
        }
    }

    private static func translate(_ error: CocoaError) -> AnnalsError {
        let path = error.filePath ?? "a file"
        return switch error.code {
        case .fileWriteOutOfSpace: AnnalsError(.diskFull, "the disk is full", hint: "Free disk space and try again; nothing was changed")
        case .fileWriteFileExists: AnnalsError(.cannotCreate, "\(path) already exists", hint: "Choose another name")
        case .fileReadNoSuchFile, .fileNoSuchFile: AnnalsError(.fileNotFound, "there is no file \(path)")
        case .fileReadNoPermission, .fileWriteNoPermission, .fileWriteVolumeReadOnly:
            AnnalsError(.notPermitted, "\(path) cannot be read or written", hint: "Check its permissions and those of its folder")
        default: AnnalsError(.defect, "unexpected error with the file \(path), please report it: \(error.code.rawValue)")
        }
    }

    /// `annals: error: WHAT. HINT`, always on one line. The note is the last sentence.
    static func line(_ message: String, hint: String?, note: String? = nil) -> String {
        let parts = [message, hint ?? "", note ?? ""].map { part in
            let line = part.split(whereSeparator: \.isNewline).joined(separator: " ")
            let words = PrintableText.of(line.trimmingCharacters(in: .whitespaces))
            return words.hasSuffix(".") ? String(words.dropLast()) : words
        }
        return parts.filter { !$0.isEmpty }.reduce(into: "annals: error:") { line, part in
            line += (line.hasSuffix(":") || line.hasSuffix("?") ? " " : ". ") + part
        }
    }

    /// Makes the first letter lower case, because the text follows a colon. Abbreviations are not changed.
    static func uncapitalised(_ text: String) -> String {
        let second = text.dropFirst().first
        guard let first = text.first, second?.isUppercase != true else { return text }
        return first.lowercased() + text.dropFirst()
    }
}
