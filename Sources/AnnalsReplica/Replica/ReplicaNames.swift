package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The names of the replicas of a space, as the log has them: each transaction has the name of its replica. `annals_meta` stores the
/// newest name of each replica. They stay when the store leaves the space, because history still has transactions of these replicas.
package enum ReplicaNames {
    private static let prefix = "named:"
    /// As many as the relay keeps of a name.
    private static let characters = 128

    /// All known names, with this replica's own.
    package static func load(_ db: Database) throws -> [ReplicaID: String] {
        var names: [ReplicaID: String] = [:]
        for row in try MetaTable(db).rows(from: prefix, to: "named;") {
            let name: String = try row.value("name")
            guard let replica = ReplicaID(String(name.dropFirst(prefix.count))) else { throw Corruption("\(OwnTables.meta).named") }
            names[replica] = try row.value("value")
        }
        if let state = try ReplicaState.load(db), !state.name.isEmpty { names[state.replica] = state.name }
        return names
    }

    /// To be called with each transaction of another replica. Writes nothing if the name is stored already.
    static func note(_ info: TransactionInfo, of replica: ReplicaID, _ db: Database) throws {
        guard let name = info.replicaName, !name.isEmpty else { return }
        // A character may have any number of scalars.
        try MetaTable(db).set("\(prefix)\(replica)", String(String.UnicodeScalarView(name.unicodeScalars.prefix(characters))))
    }
}
