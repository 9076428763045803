import AnnalsCore
import AnnalsHistory
import AnnalsHTTP
import AnnalsReplica
import AnnalsRows
import AnnalsSQLite
import AnnalsStore
import AnnalsSync
import Foundation
import GRDB

/// The demonstration with two replicas on one computer. Everything that it prints is read back from the stores.
///
///     try await DemoStory(console: console, source: .sample).run()
struct DemoStory: Sendable {
    enum Source: Sendable {
        case sample
        /// Uses a copy of this file. The file itself is only read.
        case file(String)
    }

    /// Steps that a test can replace, to check that the demonstration detects an error.
    struct Steps: Sendable {
        var synchronize: @Sendable (_ shop: DemoSide, _ laptop: DemoSide) async throws -> [SyncRound.Outcome] = { shop, laptop in
            try await SyncRound.run(
                [shop, laptop].map { .init(path: $0.name, store: $0.store, agent: $0.agent) }, .both)
        }
    }

    var console: Console
    var source: Source
    var steps = Steps()

    /// Throws `CheckFailed` if the two sides differ at the end.
    func run() async throws {
        let start = ContinuousClock.now
        let folder = try TemporaryFolder("annals-demo")
        defer { folder.remove() }
        let isEqual = try await DemoRelay.during(dataIn: folder.file("relay")) { url in
            try await show(folder, url)
        }
        let seconds = (Double(Int((ContinuousClock.now - start) / .milliseconds(100))) / 10).description
        console.print()
        guard isEqual else {
            console.print(console.style(.red, "The two sides differ. This is a bug: please report it."))
            throw CheckFailed()
        }
        let verdict = console.style(.green, "Both sides are equal.")
        console.print("\(verdict) It took \(seconds) s. The temporary folder was removed.")
    }

    private func show(_ folder: TemporaryFolder, _ url: String) async throws -> Bool {
        let (plan, shop, laptop) = try await begin(folder, url)
        let before = try await shop.store.latestToken()
        try await workApart(plan, shop, laptop)
        heading("Both sides sync")
        for outcome in try await steps.synchronize(shop, laptop) {
            console.print("   " + SyncReport.line(outcome.path, try outcome.result.get()))
        }
        heading("The same rows, read from both files")
        let looksEqual = try await look(plan, shop, laptop)
        try await showConflicts([shop, laptop])
        try await showHistory(shop, after: before)
        try await replay(plan, shop, to: before, folder)
        return try await compare(shop, laptop) && looksEqual
    }

    // MARK: Two replicas

    private func begin(_ folder: TemporaryFolder, _ url: String) async throws -> (DemoPlan, DemoSide, DemoSide) {
        let path = folder.file("shop.db")
        try await DemoSource.make(source, at: path)
        let store = try Stores.open(path)
        let tracked = try await store.track(.all).tables.filter(\.isTracked).map(\.name)
        heading("Track: a database of another program gets a history")
        try await printCounts(store, tracked)
        let plan: DemoPlan
        switch source {
        case .sample: plan = SampleShop.plan
        case .file: plan = try await DemoSource.plan(path, tracked: tracked)
        }

        heading("Join and clone: the database becomes a space on a relay, and a second machine gets a copy")
        guard let space = SpaceName("shop") else { throw AnnalsError(.defect, operation: "demo", "a space has a bad name") }
        let client = try HTTPClient()
        func joining(_ name: String) throws -> Joining {
            Joining(
                transport: try HTTPRelay(address: url, space: space, identity: .init(name: name), client: client), address: url,
                space: space, name: name, configuration: Stores.configuration)
        }
        _ = try await joining("shop").join(store)
        _ = try await joining("laptop").clone(to: folder.file("laptop.db"))
        let shop = try await DemoSide("shop", store, client: client)
        let laptop = try await DemoSide("laptop", Stores.open(folder.file("laptop.db")), client: client)
        for side in [shop, laptop] {
            let position = try await side.store.replicaState()?.position ?? .zero
            console.print("   \(pad(side.name)) position \(position), digest \(short(try await side.store.digest()))")
        }
        return (plan, shop, laptop)
    }

    private func printCounts(_ store: Store, _ tables: [String]) async throws {
        let counts = try await store.read { db in
            try tables.map { try Int.fetchOne(db, sql: "SELECT count(*) FROM \(SQL.quote($0))") ?? 0 }
        }
        var table = Table(["table", "rows"])
        table.indent = "   "
        for (name, count) in zip(tables, counts) { table.append([.init(name), .init(count)]) }
        console.print(table)
    }

    // MARK: Offline

    private func workApart(_ plan: DemoPlan, _ shop: DemoSide, _ laptop: DemoSide) async throws {
        heading("Both sides change rows while they are offline, with plain SQL from another program")
        for (side, statements) in [(shop, plan.shop), (laptop, plan.laptop)] {
            try await side.writeFromOutside(statements)
            for statement in statements { console.print("   \(pad(side.name)) \(PrintableText.of(statement))") }
            // So that the two transactions have different times.
            try await ContinuousClock().sleep(for: .milliseconds(5))
        }
    }

    // MARK: Together again

    /// False if the rows of the two sides differ.
    private func look(_ plan: DemoPlan, _ shop: DemoSide, _ laptop: DemoSide) async throws -> Bool {
        var isEqual = true
        for (index, look) in plan.looks.enumerated() {
            if index > 0 { console.print() }
            console.print("   \(look.title)")
            let here = try await rows(shop.store, look)
            let there = try await rows(laptop.store, look)
            isEqual = isEqual && here == there
            var table = Table(["side"] + here.columns)
            table.indent = "   "
            for (side, found) in [(shop, here), (laptop, there)] {
                for row in found.rows { table.append([.init(side.name, colour: .cyan)] + row.map { .init($0) }) }
            }
            console.print(table)
        }
        return isEqual
    }

    private func rows(_ store: Store, _ look: DemoPlan.Look) async throws -> DemoRows {
        try await store.read { db in try DemoRows.read(db, look.sql) }
    }

    private func showConflicts(_ sides: [DemoSide]) async throws {
        heading("The conflicts; ✓ marks the side that won")
        guard let store = sides.first?.store else { return }
        for line in try await store.conflicts(limit: 100) {
            for text in ConflictReport.lines(line, console.style) { console.print("   " + text) }
        }
    }

    private func showHistory(_ shop: DemoSide, after token: HistoryToken) async throws {
        heading("The shop's history since the clone, with old and new values")
        let print = try await HistoryPrint(
            console: console, json: false, values: true, replicas: shop.store.replicaNames(), indent: "   ")
        _ = try await HistoryPages(store: shop.store, request: HistoryRequest(after: token)).print(with: print)
    }

    /// Replays the earlier state into a separate file.
    private func replay(_ plan: DemoPlan, _ shop: DemoSide, to token: HistoryToken, _ folder: TemporaryFolder) async throws {
        heading("The shop before these changes, replayed into a new file")
        let path = folder.file("before.db")
        let outcome = try await shop.store.replay(to: token, output: path)
        console.print(
            "   at token \(outcome.token): \(Count.of(outcome.transactions, "transaction")) undone in \(Count.of(outcome.rows, "row"))")
        let connection = try DatabaseQueue(path: path)
        defer { try? connection.close() }
        guard let look = plan.looks.first else { return }
        let before = try await connection.read { db in try DemoRows.read(db, look.sql) }
        let now = try await rows(shop.store, look)
        var table = Table(["when"] + now.columns)
        table.indent = "   "
        for (when, found) in [("then", before), ("now", now)] {
            for row in found.rows { table.append([.init(when, colour: .cyan)] + row.map { .init($0) }) }
        }
        console.print(table)
    }

    private func compare(_ shop: DemoSide, _ laptop: DemoSide) async throws -> Bool {
        heading("Comparing both sides")
        var digests: [Digest] = []
        for side in [shop, laptop] {
            let digest = try await side.store.digest()
            let violations = try await side.store.read { db in
                try GRDB.Row.fetchAll(db, sql: "PRAGMA foreign_key_check").count
            }
            console.print("   \(pad(side.name)) digest \(short(digest)), \(Count.of(violations, "broken foreign key"))")
            digests.append(digest)
            if violations > 0 { return false }
        }
        return digests[0] == digests[1]
    }

    // MARK: Lines

    private func heading(_ text: String) {
        console.print()
        console.print(console.style(.bold, "── \(text)"))
    }

    private func pad(_ name: String) -> String {
        name + String(repeating: " ", count: max(0, "laptop".count - name.count))
    }

    private func short(_ digest: Digest) -> String { String(digest.description.prefix(16)) }
}
