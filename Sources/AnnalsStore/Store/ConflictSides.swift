import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSQLite
import Foundation
import GRDB

/// Who wrote the values of some conflicts, as far as this store knows it.
///
/// The log names the author of the incoming value. The author of the stored value is in history, until a purge drops it.
struct ConflictSides {
    /// The names of replicas.
    let replicas: [ReplicaID: String]
    private let own: ReplicaID?
    private var authorsByPosition: [Position: String] = [:]
    /// Of this store's own transactions, which have no position in history.
    private var authorsByTime: [HybridTime: String] = [:]

    init(_ conflicts: [Conflict], _ db: Database) throws {
        replicas = try ReplicaNames.load(db)
        own = try ReplicaState.load(db)?.replica
        let entries = conflicts.map(\.entry)
        let times = Set(entries.compactMap(\.storedTime?.milliseconds))
        guard !times.isEmpty else { return }
        let rows = try TransactionTable(db).authors(times: times, positions: Set(entries.compactMap(\.storedPosition?.rawValue)))
        while let row = try rows.next() {
            let (replica, author): (Data?, String?) = try (row.value("replica"), row.value("author"))
            if replica == nil {
                let time = try HybridTime(milliseconds: row.value("time"), counter: row.value("time_counter"))
                authorsByTime[time] = author
            } else if let position: Int64 = try row.value("position") {
                authorsByPosition[Position(position)] = author
            }
        }
    }

    func storedAuthor(of conflict: Conflict) -> String? {
        let entry = conflict.entry
        let author = entry.storedPosition.flatMap { authorsByPosition[$0] }
        return author ?? (entry.storedReplica == own ? entry.storedTime.flatMap { authorsByTime[$0] } : nil)
    }
}
