import AnnalsCore
import ArgumentParser
import Foundation

/// Where a client takes its bearer token from. The token itself is never printed, logged or stored.
struct CredentialOptions: ParsableArguments {
    @Option(
        name: .customLong("credential-file"),
        help:
            "A file that holds the relay's token; a store remembers where it is. Without one the environment's ANNALS_CREDENTIAL is used.",
        completion: .file())
    var file: String?

    /// The file as an absolute path, since the store remembers it.
    var absoluteFile: String? { file.map { URL(fileURLWithPath: $0).path } }

    /// The token from the file that was named, else from the one the store remembers, else from the environment, also where the
    /// remembered file is gone.
    ///
    /// Throws `AnnalsError` with `.fileNotFound`, `.notPermitted` or `.configuration`.
    func token(remembered: String? = nil) throws -> String? {
        if let file {
            let token = try Credential.read(file)
            Credential.warnIfShared(file)
            return token
        }
        let text = ProcessInfo.processInfo.environment["ANNALS_CREDENTIAL"].flatMap { $0.isEmpty ? nil : $0 }
        if let remembered, text == nil || FileManager.default.fileExists(atPath: remembered) { return try Credential.read(remembered) }
        return try text.map { try Credential.check($0, from: "ANNALS_CREDENTIAL") }
    }
}

extension CredentialOptions {
    /// Reads the file anew, for whoever stays in touch while another program renews the token; nil where there is no file.
    func renewal(remembered: String?) -> (@Sendable () -> String?)? {
        guard let file = file ?? remembered else { return nil }
        return { try? Credential.read(file) }
    }
}

enum Credential {
    /// More than any token has that a relay takes.
    private static let maximumBytes = 16_384

    /// Says on standard error that other users of this machine can read a token, or put another in its place.
    static func warnIfShared(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0, isShared(status.st_mode) else { return }
        let warning = "annals: warning: other users can read or change the credential file \(path). Run chmod 600 \(path)\n"
        FileHandle.standardError.write(Data(warning.utf8))
    }

    /// Whether the group or others may read or change a file.
    static func isShared(_ mode: mode_t) -> Bool { mode & 0o066 != 0 }

    static func read(_ path: String) throws -> String {
        guard FileManager.default.fileExists(atPath: path) else {
            throw AnnalsError(.fileNotFound, "there is no credential file \(path)", hint: "Write the relay's token into it")
        }
        guard let file = FileHandle(forReadingAtPath: path), let data = try? file.read(upToCount: maximumBytes) ?? Data() else {
            throw AnnalsError(.notPermitted, "the credential file \(path) cannot be read", hint: "Check its permissions")
        }
        guard data.count < maximumBytes else {
            throw AnnalsError(
                .configuration, "\(path) does not hold a token", hint: "A token is one word, as annals relay token create prints it")
        }
        return try check(String(decoding: data, as: UTF8.self), from: path)
    }

    /// Refuses what could not stand in a header, without repeating any of it.
    static func check(_ text: String, from place: String) throws -> String {
        let token = text.trimmingCharacters(in: .whitespacesAndNewlines)
        guard !token.isEmpty, token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw AnnalsError(
                .configuration, "\(place) does not hold a token", hint: "A token is one word, as annals relay token create prints it")
        }
        return token
    }
}
