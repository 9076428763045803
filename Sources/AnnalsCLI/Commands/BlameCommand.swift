import AnnalsCore
import AnnalsStore
import ArgumentParser

struct BlameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "blame",
        abstract: "Show who wrote each column of a row, and when.",
        discussion: """
            KEY is the row's key: of a compound key the values one after another, in the key's order. A value is a number, X'…' for \
            bytes, 'text', or text as it stands; a negative number stands after --. Of a row that is gone it shows who deleted it and the last values. What is older \
            than the history of its table was written before history. It looks backward through the table's changes until it \
            finds where the row was inserted.

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
        let blame = try await store.blame(table: table, key: key.map(SQLLiteral.value))
        if output.json { console.print(BlamePrint.json(blame)) } else { BlamePrint.print(blame, on: console) }
    }
}
