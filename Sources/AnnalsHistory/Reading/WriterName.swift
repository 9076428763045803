package import AnnalsCore
import Foundation
import GRDB

/// A name that a person gives for a writer. It means the transactions of the author with this name, and those without an author of the
/// replicas with this name.
package struct WriterName: Hashable, Sendable {
    package let name: String
    /// Other replicas with this name.
    private let replicas: Set<ReplicaID>
    /// Whether this store's replica has this name.
    private let isOwn: Bool

    package init(_ name: String, replicas: some Sequence<ReplicaID>, isOwn: Bool) {
        (self.name, self.replicas, self.isOwn) = (name, Set(replicas), isOwn)
    }

    package func wrote(_ transaction: HistoryTransaction) -> Bool {
        if let author = transaction.author { return author == name }
        return switch transaction.origin {
        case .imported(let replica, _): replicas.contains(replica)
        case .local, .external, .migration: isOwn
        case .rebase: false
        }
    }

    /// The same, as a condition on `annals_transactions`.
    var condition: (sql: String, arguments: StatementArguments) {
        var terms = ["author IS ?"]
        var arguments: StatementArguments = [name]
        if isOwn {
            let origins = TransactionOrigin.own.map { String($0.rawValue) }
            terms.append("author IS NULL AND origin IN (\(origins.joined(separator: ", ")))")
        }
        let others = replicas.map { Data($0.bytes) }.sorted { $0.lexicographicallyPrecedes($1) }
        if !others.isEmpty {
            terms.append(
                "author IS NULL AND origin = \(TransactionOrigin.imported.rawValue) AND replica IN (\(others.map { _ in "?" }.joined(separator: ", ")))"
            )
            arguments += StatementArguments(others)
        }
        return ("(\(terms.map { "(\($0))" }.joined(separator: " OR ")))", arguments)
    }
}
