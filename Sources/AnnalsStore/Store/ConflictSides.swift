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
    /// The authors of this store's own writes by the times of the writes. Its own transactions have no position in history.
    private var authorsByTime: [HybridTime: String] = [:]

    init(_ conflicts: [Conflict], _ db: Database) throws {
        replicas = try ReplicaNames.load(db)
        own = try ReplicaState.load(db)?.replica
        let entries = conflicts.map(\.entry)
        let transactions = TransactionTable(db)
        let positions = Set(entries.compactMap(\.storedPosition?.rawValue))
        let rows = try positions.isEmpty ? nil : transactions.authors(positions: positions)
        while let row = try rows?.next() {
            // Values that waited for a column have the position of an entry too, and no author.
            if let author: String = try row.value("author") { authorsByPosition[Position(try row.value("position"))] = author }
        }
        let own = own
        let times = Set(entries.filter { $0.storedReplica == own }.compactMap(\.storedTime)).sorted()
        try transactions.forEachOwn(writtenAt: times) { time, _, author in authorsByTime[time] = author }
    }

    func storedAuthor(of conflict: Conflict) -> String? {
        let entry = conflict.entry
        let author = entry.storedPosition.flatMap { authorsByPosition[$0] }
        return author ?? (entry.storedReplica == own ? entry.storedTime.flatMap { authorsByTime[$0] } : nil)
    }
}
