import AnnalsCore
public import AnnalsHistory
import AnnalsStore
public import ArgumentParser

struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "List transactions and what they changed, oldest first.",
        discussion: """
            A POINT is a token that this command prints, a transaction's number (the rows after it), an ISO 8601 date (in UTC without an \
            offset), start or latest. --after and --before exclude the token's own transaction, and those of exactly that date. Changes \
            of other programs that are not in history yet are recorded first.

            An external transaction holds all commits of other programs between two recordings, and is shown as the net change of \
            each row. It is listed if its first write is before the end of the dates and its last one after their start. --steps prints each write between the dates instead, with \
            its time and its values, table after table. With --json it adds the key steps; --values adds their values.

            Examples:
              annals history shop.db --values
              annals history shop.db --origin external --steps
              annals history shop.db --table product --key 7 --column price --steps
              annals history shop.db --after 2024-05-01 --table invoice --json
              annals history shop.db --consumer report --json
            """)

    @OptionGroup var argument: StoreArgument
    @Option(help: ArgumentHelp("Only transactions after this point.", valueName: "point"))
    var after: String?
    @Option(help: ArgumentHelp("Only transactions before this one.", valueName: "point"))
    var before: String?
    @Option(help: ArgumentHelp("Only transactions that this consumer has not acknowledged.", valueName: "name"))
    var consumer: String?
    @Option(help: "Only transactions of this author, or without an author on the replica of this name.")
    var author: String?
    @Option(help: "Only transactions that changed this table, and only their changes of it.")
    var table: String?
    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp("With --table: only changes of the row with this key, before or after the change.", valueName: "key"))
    var key: [String] = []
    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp(
            "With --table: only changes that touch this column, with all their values, and inserts and deletes.", valueName: "column"))
    var column: [String] = []
    @Option(help: "Only transactions of this origin: local, external, imported, migration or rebase.")
    var origin: HistoryOriginFilter?
    @Option(help: "The maximum number of transactions, oldest first.")
    var limit: Int?
    @Flag(help: "Print old and new values.")
    var values = false
    @Flag(help: "Print each write with its time and values, not only the net change of each row; with --json, values need --values.")
    var steps = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if consumer != nil, after != nil { throw ValidationError("--consumer and --after both set the start: give one of them.") }
        if table == nil, !key.isEmpty || !column.isEmpty { throw ValidationError("--key and --column need --table.") }
        if let limit, limit < 0 { throw ValidationError("--limit is a number of transactions, 0 or more.") }
    }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        if let after { try await store.refuseFuture(after) }
        var request = try await store.request(after: after, before: before)
        if let consumer { request = try await request.continuing(after: store.token(of: HistoryConsumer(consumer))) }
        if let author { request = try await request.written(by: store.replicaNames().writer(named: author)) }
        if let table {
            request =
                key.isEmpty && column.isEmpty
                ? request.tables(table)
                : try await store.request(request, row: key.isEmpty ? nil : key.map(SQLLiteral.key), of: table, columns: column)
        }
        if let origin { request = request.origins(origin) }
        let print = try await HistoryPrint(
            console: console, json: output.json, values: values, steps: steps, replicas: store.replicaNames())
        let count = try await HistoryPages(store: store, request: request, limit: limit).print(with: print).count
        if count == 0, !output.json { console.print(nothing) }
    }

    /// What was looked for and not found.
    private var nothing: String {
        var text = "no transactions"
        if let author { text += " of \(PrintableText.of(author))" }
        guard let table else { return text }
        var place = PrintableText.of(table)
        if !key.isEmpty { place = "the row \(key.map(SQLLiteral.key).map(RowText.value).joined(separator: ", ")) of \(place)" }
        if !column.isEmpty { place = "\(column.map(PrintableText.of).joined(separator: ", ")) of \(place)" }
        return "\(text) changed \(place)"
    }
}

extension HistoryOriginFilter: ExpressibleByArgument {
    public init?(argument: String) {
        self.init(name: argument)
    }
}
