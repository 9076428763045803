import AnnalsCore
import AnnalsHTTP
import AnnalsReplica
import AnnalsStore
import ArgumentParser
import Foundation

/// Which certificates a client trusts at a relay's https address.
struct TrustOptions: ParsableArguments {
    @Option(
        name: .customLong("ca-file"),
        help: """
            A PEM file with the certificates to trust for the relay, instead of the system's. The store remembers its path; "system" \
            returns to the system's certificates.
            """,
        completion: .file())
    var file: String?
    @Option(
        name: .customLong("pin"),
        help: ArgumentHelp(
            """
            Accept only a relay with this public key, as sha256//BASE64, and with a trusted certificate: a self-made one needs --ca-file, \
            too. Repeatable. The store remembers the keys; "none" removes them.
            """,
            valueName: "key"))
    var pins: [PinnedKey] = []

    var isGiven: Bool { file != nil || !pins.isEmpty }

    /// The given options; a remembered value is used for each option that was not given.
    private func filled(from remembered: RelayTrust) -> RelayTrust {
        var trust = remembered
        if let file { trust.caFile = file == "system" ? nil : URL(fileURLWithPath: file).path }
        if !pins.isEmpty { trust.pins = pins.compactMap(\.text) }
        return trust
    }

    /// The given options for an address; a remembered value is used for each option that was not given.
    ///
    /// Throws `AnnalsError` with `.usage`, `.fileNotFound`, `.notPermitted` or `.configuration`.
    func trust(at address: String, remembered: RelayTrust = RelayTrust()) throws -> RelayTrust {
        let trust = filled(from: remembered)
        guard address.lowercased().hasPrefix("https://") || trust == RelayTrust() else {
            throw AnnalsError(
                .usage, operation: "connect", "\(address) is not an https address", hint: "--ca-file and --pin need https://")
        }
        if let path = trust.caFile { try Self.check(path) }
        return trust
    }

    private static func check(_ path: String) throws {
        guard FileManager.default.fileExists(atPath: path) else {
            throw AnnalsError(.fileNotFound, "there is no certificate file \(path)", hint: "Name a PEM file with --ca-file")
        }
        guard let file = FileHandle(forReadingAtPath: path), let data = try? file.readToEnd() else {
            throw AnnalsError(.notPermitted, "the certificates in \(path) cannot be read", hint: "Check its permissions")
        }
        guard String(decoding: data, as: UTF8.self).contains("CERTIFICATE-----") else {
            throw AnnalsError(.configuration, "\(path) contains no certificate", hint: "Name a PEM file with --ca-file")
        }
    }
}

/// The SHA-256 of a public key in curl's form, or "none".
struct PinnedKey: ExpressibleByArgument, Equatable, Sendable {
    /// nil for "none".
    let text: String?

    init?(argument: String) {
        if argument == "none" {
            text = nil
            return
        }
        let prefix = "sha256//"
        guard argument.hasPrefix(prefix), Data(base64Encoded: String(argument.dropFirst(prefix.count)))?.count == 32 else { return nil }
        text = argument
    }
}
