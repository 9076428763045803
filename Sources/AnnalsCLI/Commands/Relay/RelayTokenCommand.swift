import AnnalsCore
import ArgumentParser
import Foundation
import RelayLog

struct RelayTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Make, list and revoke the tokens that clients show to a relay.",
        subcommands: [RelayTokenCreateCommand.self, RelayTokenListCommand.self, RelayTokenRevokeCommand.self])
}

struct RelayTokenCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Make a token and print it, this once; only its hash is kept.",
        discussion: """
            Example:
              annals relay token create --data relay-data --space shop --expires 90d > shop.token
            """)

    @OptionGroup var folder: RelayDataOption
    @Option(help: "The space it is for; without it, all spaces.")
    var space: SpaceName?
    @Option(help: "read, write or admin; each allows what those before it do.")
    var scope = TokenScope.write
    @Option(help: "How long it is valid, such as 12h, 90d or 8w; without it, until revoked.")
    var expires: Lifetime?
    @Option(help: "A word for the list, such as whose it is.")
    var label = ""
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let database = try folder.openExisting()
        defer { try? database.close() }
        let (secret, record) = try await TokenStore(database: database).create(
            label: label, space: space, scope: scope, lifetimeMilliseconds: expires?.milliseconds, by: .commandLine)
        console.print(output.json ? RelayTokenReport.json(record).adding(["token": .text(secret)]).description : secret)
    }
}

struct RelayTokenListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the tokens, without their secrets.",
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
        abstract: "End a token. A running relay refuses it within a second.",
        discussion: """
            Example:
              annals relay token revoke 3 --data relay-data
            """)

    @Argument(help: "The token's number, as the list shows it.")
    var id: Int64
    @OptionGroup var folder: RelayDataOption
    @OptionGroup var output: PlainOutputOptions

    func run() async throws {
        let database = try folder.openExisting()
        defer { try? database.close() }
        guard try await TokenStore(database: database).revoke(id, by: .commandLine) else {
            throw AnnalsError(.fileNotFound, "there is no token \(id) that could be revoked", hint: "See annals relay token list")
        }
        output.console.print("token \(id) is revoked")
    }
}

extension TokenScope: ExpressibleByArgument {}
