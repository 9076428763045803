import AnnalsCore
import ArgumentParser
import Foundation

/// The source of a client's bearer token. The token itself is never printed, logged or stored.
struct CredentialOptions: ParsableArguments {
    @Option(
        name: .customLong("credential-file"),
        help:
            "A file with the relay's token; the store remembers its path. Without a file, ANNALS_CREDENTIAL in the environment is used.",
        completion: .file())
    var file: String?

    /// The file as an absolute path, because the store remembers it.
    var absoluteFile: String? { file.map { URL(fileURLWithPath: $0).path } }

    /// The token from the named file, otherwise from the file that the store remembers, otherwise from the environment. The
    /// environment is also used if the remembered file no longer exists.
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
    /// Reads the file again, so that a continuous sync uses a token that another program renewed; nil without a file.
    func renewal(remembered: String?) -> (@Sendable () -> String?)? {
        guard let file = file ?? remembered else { return nil }
        return { try? Credential.read(file) }
    }
}

enum Credential {
    /// Larger than any token that a relay accepts.
    private static let maximumBytes = 16_384

    /// Warns on standard error that other users of this machine can read or replace a token.
    static func warnIfShared(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0, isShared(status.st_mode) else { return }
        let warning = "annals: warning: other users can read or change the credential file \(path). Run chmod 600 \(path)\n"
        FileHandle.standardError.write(Data(warning.utf8))
    }

    /// Whether the group or others can read or change a file.
    static func isShared(_ mode: mode_t) -> Bool { mode & 0o066 != 0 }

    static func read(_ path: String) throws -> String {
        guard FileManager.default.fileExists(atPath: path) else {
            throw AnnalsError(.fileNotFound, "there is no credential file \(path)", hint: "Write the access token for the relay into it")
        }
        guard let file = FileHandle(forReadingAtPath: path), let data = try? file.read(upToCount: maximumBytes) ?? Data() else {
            throw AnnalsError(.notPermitted, "the credential file \(path) cannot be read", hint: "Check its permissions")
        }
        guard data.count < maximumBytes else {
            throw AnnalsError(
                .configuration, "\(path) does not contain an access token",
                hint: "A token is one word, as annals relay token create prints it")
        }
        return try check(String(decoding: data, as: UTF8.self), from: path)
    }

    /// Refuses text that cannot be in a header. The error does not repeat the text.
    static func check(_ text: String, from place: String) throws -> String {
        let token = text.trimmingCharacters(in: .whitespacesAndNewlines)
        guard !token.isEmpty, token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw AnnalsError(
                .configuration, "\(place) does not contain an access token",
                hint: "A token is one word, as annals relay token create prints it")
        }
        return token
    }
}
