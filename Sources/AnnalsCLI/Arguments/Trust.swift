import AnnalsCore
import AnnalsHTTP
import AnnalsStore
import ArgumentParser
import Foundation

/// Whom a client trusts at a relay's https address.
struct TrustOptions: ParsableArguments {
    @Option(
        name: .customLong("ca-file"),
        help: "A PEM file of certificates to trust at the relay's address, instead of the system's; the store remembers it.",
        completion: .file())
    var file: String?
    @Option(
        name: .customLong("pin"),
        help: ArgumentHelp(
            "The relay's key must be this one, as sha256//BASE64; several may be given. The store remembers them.", valueName: "key"))
    var pins: [PinnedKey] = []

    /// What was given.
    var given: RelayTrust {
        RelayTrust(caFile: file.map { URL(fileURLWithPath: $0).path }, pins: pins.map(\.text))
    }

    /// What was given for an address, and what is remembered where nothing was.
    ///
    /// Throws `AnnalsError` with `.usage`, `.fileNotFound`, `.notPermitted` or `.configuration`.
    func trust(at address: String, remembered: RelayTrust = RelayTrust()) throws -> RelayTrust {
        let trust = given.filled(from: remembered)
        guard address.lowercased().hasPrefix("https://") || trust == RelayTrust() else {
            throw AnnalsError(
                .usage, operation: "connect", "\(address) has no certificate to check", hint: "--ca-file and --pin go with https://")
        }
        if let path = trust.caFile { try Self.check(path) }
        return trust
    }

    private static func check(_ path: String) throws {
        guard FileManager.default.fileExists(atPath: path) else {
            throw AnnalsError(.fileNotFound, "there is no file \(path) of certificates", hint: "Name a PEM file with --ca-file")
        }
        guard let file = FileHandle(forReadingAtPath: path), let data = try? file.readToEnd() else {
            throw AnnalsError(.notPermitted, "the certificates in \(path) cannot be read", hint: "Check its permissions")
        }
        guard String(decoding: data, as: UTF8.self).contains("-----BEGIN") else {
            throw AnnalsError(.configuration, "\(path) holds no certificate", hint: "Name a PEM file with --ca-file")
        }
    }
}

/// The SHA-256 of a public key, as curl writes it.
struct PinnedKey: ExpressibleByArgument, Equatable, Sendable {
    let text: String

    init?(argument: String) {
        let prefix = "sha256//"
        guard argument.hasPrefix(prefix), Data(base64Encoded: String(argument.dropFirst(prefix.count)))?.count == 32 else { return nil }
        text = argument
    }
}
