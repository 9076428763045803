import Annals
import GRDB

// Writes to a joined store with `Store.write`, one commit for each row, and then syncs it in the same process.
// `Scripts/measure-memory` measures the memory.
//
// usage: memory-probe FILE COMMITS

guard CommandLine.arguments.count == 3, let commits = Int64(CommandLine.arguments[2]), commits > 0 else {
    throw AnnalsError(.usage, operation: "memory-probe", "usage: memory-probe FILE COMMITS")
}
let store = try Store(path: CommandLine.arguments[1])
for number in 1...commits {
    try await store.write(author: "probe") { db in
        try db.execute(
            sql: "INSERT INTO item(name, size, price, note) VALUES(?, ?, ?, 'written by the probe')",
            arguments: ["name of \(number)", number * 7, Double(number) * 1.25])
    }
}
guard let state = try await store.replicaState() else {
    throw AnnalsError(.notJoined, operation: "memory-probe", "\(store.path) has not joined a space")
}
let relay = try HTTPRelay(
    address: state.relay, space: state.space, identity: .init(name: state.name), client: HTTPClient())
let summary = try await SyncAgent(store: store, transport: relay).sync()
print("pushed \(summary.pushed.transactions) transactions")
