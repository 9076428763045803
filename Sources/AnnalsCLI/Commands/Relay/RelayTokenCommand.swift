import AnnalsCore
import ArgumentParser
import Foundation
import RelayLog

struct RelayTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Create, list and revoke the access tokens with which clients use a relay.",
        subcommands: [RelayTokenCreateCommand.self, RelayTokenListCommand.self, RelayTokenRevokeCommand.self])
}

struct RelayTokenCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Create an access token and print it once; only its hash is kept.",
        discussion: """
            Examples:
              annals relay token create --data relay-data --space shop --expires 90d --output shop.token
              annals relay token create --data relay-data --renews 3 --expires 90d --output shop.token --force

            With --output the token is not printed. It is in a new file that only you can read, and join and clone take the file with \
            --credential-file. If the file cannot be created, no token is made (73).

            A replica belongs to the token that first pushed with its id, until that token is revoked or expires. A token that \
            renews another has the same space, scope, label and replicas; both are valid until each of them ends.
            """)

    @OptionGroup var folder: RelayDataOption
    @Option(help: "The token's space. (default: all spaces)")
    var space: SpaceName?
    @Option(help: "read, write or admin; each includes the ones before it. (default: write)")
    var scope: TokenScope?
    @Option(help: "The number of the token that the new one renews.")
    var renews: Int64?
    @Option(help: "How long the token is valid, such as 5m, 12h, 90d or 8w. (default: until it is revoked)")
    var expires: Lifetime?
    @Option(help: "A label for the list, such as the owner's name.")
    var label: String?
    @Option(
        name: .customLong("output"),
        help: ArgumentHelp("Write the token to this new file, readable by its owner only, and do not print it.", valueName: "file"),
        completion: .file())
    var file: String?
    @Flag(help: "Replace the file if it exists.")
    var force = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if force, file == nil { throw ValidationError("--force needs --output.") }
        guard renews == nil || (space == nil && scope == nil && label == nil) else {
            throw ValidationError("A token that renews another has its space, scope and label: give --renews without them.")
        }
    }

    func run() async throws {
        let console = output.console
        let database = try folder.openExisting()
        defer { try? database.close() }
        let tokens = TokenStore(database: database)
        if let file { return try await make(tokens, in: file, console) }
        let (secret, record) = try await make(tokens)
        console.print(output.json ? RelayTokenReport.json(record).adding(["token": .text(secret)]).description : secret)
    }

    private func make(_ tokens: TokenStore, in path: String, _ console: Console) async throws {
        let file = try SecretFile(path, replaces: force, ifTaken: "Choose another name, or replace the file with --force")
        let (secret, record): (String, TokenRecord)
        do {
            (secret, record) = try await make(tokens)
        } catch {
            file.discard()
            throw error
        }
        do {
            try file.finish(secret + "\n")
        } catch {
            // Nobody has the token.
            _ = try await tokens.revoke(record.id, by: .thisUser)
            throw error
        }
        if output.json { console.print(RelayTokenReport.json(record).adding(["file": .text(path)])) }
    }

    private func make(_ tokens: TokenStore) async throws -> (secret: String, record: TokenRecord) {
        guard let renews else {
            return try await tokens.create(
                label: label ?? "", space: space, scope: scope ?? .write, lifetimeMilliseconds: expires?.milliseconds, by: .thisUser)
        }
        do {
            let renewed = try await tokens.renew(renews, lifetimeMilliseconds: expires?.milliseconds, by: .thisUser)
            guard let renewed else { throw AnnalsError(.fileNotFound, "there is no token \(renews)", hint: "See annals relay token list") }
            return renewed
        } catch TokenStore.Refusal.isRevoked {
            throw AnnalsError(
                .constraint, "token \(renews) is revoked and cannot be renewed",
                hint: "Create a new token: a replica then belongs to the owner that pushes with its id next")
        }
    }
}

struct RelayTokenListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the access tokens, without their secrets.",
        discussion: """
            Example:
              annals relay token list --data relay-data
            """)

    @OptionGroup var folder: RelayDataOption
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let database = try folder.openExisting()
        defer { try? database.close() }
        let records = try await TokenStore(database: database).list()
        if output.json {
            for record in records { console.print(RelayTokenReport.json(record)) }
        } else if records.isEmpty {
            console.print("no tokens")
        } else {
            console.print(RelayTokenReport.table(records, now: Int64(Date().timeIntervalSince1970 * 1000)))
        }
    }
}

struct RelayTokenRevokeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Revoke an access token. A running relay refuses it within a second.",
        discussion: """
            Example:
              annals relay token revoke 3 --data relay-data
            """)

    @Argument(help: "The token's number, as the list shows it.")
    var id: Int64
    @OptionGroup var folder: RelayDataOption
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let database = try folder.openExisting()
        defer { try? database.close() }
        let tokens = TokenStore(database: database)
        guard try await tokens.revoke(id, by: .thisUser) else {
            throw AnnalsError(.fileNotFound, "token \(id) does not exist, or was revoked before", hint: "See annals relay token list")
        }
        if output.json {
            for record in try await tokens.list() where record.id == id { output.console.print(RelayTokenReport.json(record)) }
        } else {
            output.console.print("token \(id) is revoked")
        }
    }
}

extension TokenScope: ExpressibleByArgument {}
