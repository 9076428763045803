import AnnalsCore
import AnnalsStore
import ArgumentParser

struct BlameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "blame",
        abstract: "Show who wrote each column of a row, and when.",
        discussion: """
            KEY is the row's primary key; for a compound key, give the values in the key's order. A value is a number, X'…' for \
            bytes, 'text', or plain text; put -- before a negative number. For a deleted row, the command shows who deleted it and \
            its last values. The time is that of the write itself, also within a group of commits of other programs; for a write of \
            another replica it is the author's time. A note is the context that an app gave. "before history" marks a value that is \
            older than the history of its table. The command reads the table's changes backward until it finds the row's insert.

            Examples:
              annals blame shop.db customer 7
              annals blame shop.db seat hall-1 12 --json
            """)

    @OptionGroup var argument: StoreArgument
    @Argument(help: "The row's table.")
    var table: String
    @Argument(help: ArgumentHelp("The row's key.", valueName: "key"))
    var key: [String]
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let blame = try await store.blame(table: table, key: key.map(SQLLiteral.key))
        let print = try await BlamePrint(replicas: store.replicaNames())
        if output.json { console.print(print.json(blame)) } else { print.print(blame, on: console) }
    }
}
