import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging

/// Continues with a relay that was restored from a backup.
///
/// The store finds the last position that its log and the relay's log have in common. The later entries of its log go
/// back to the outbox, and the exchange continues normally. Transactions that other replicas have sent again meanwhile
/// are recognised by their ids. Only transactions that conflict with other entries of the relay's log are rebased.
extension SyncAgent {
    func follow(_ cause: AnnalsError, _ summary: inout Summary) async throws -> ExchangeStatus {
        guard let (mark, head) = try await lastCommonMark(&summary.patience) else { throw cause }
        let followed = try await store.follow(mark, head: head)
        summary.followed = followed.position
        summary.returned += followed.transactions
        logger.warning(
            "the relay was restored from a backup; the entries that it lost are sent again",
            metadata: ["from": "\(followed.position)", "transactions": "\(followed.transactions)"])
        return followed.status
    }

    /// The last mark that the relay's log also has, with the head of that log. nil if it has none.
    private func lastCommonMark(_ patience: inout ExchangePatience) async throws -> (LogMark, head: Position)? {
        let marks = try await store.recentLogMarks()
        var found: (LogMark, head: Position)?
        var (low, high) = (0, marks.count)
        while low < high {
            let middle = (low + high) / 2
            if let head = try await head(of: marks[middle], &patience) {
                found = (marks[middle], head)
                low = middle + 1
            } else {
                high = middle
            }
        }
        return found
    }

    /// The head of the relay's log, if that log is the same up to the mark.
    private func head(of mark: LogMark, _ patience: inout ExchangePatience) async throws -> Position? {
        do {
            return try await request(&patience) { [transport] in
                try await transport.pull(after: mark.position, seen: mark, byteLimit: 1, wait: nil)
            }.head
        } catch let error as AnnalsError where error.code == .relayRolledBack {
            return nil
        }
    }
}
