import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Logging

/// Goes on with a relay that was restored from a backup.
///
/// The store looks for the last position that its log and the relay's have in common. What it has of the log after that becomes work that
/// waits to be sent, and the exchange goes on as ever: what others have brought back by then is known by the ids of its transactions, and
/// only what meets other work in the relay's log is rebased.
extension SyncAgent {
    func follow(_ cause: AnnalsError, _ summary: inout Summary) async throws -> ExchangeStatus {
        guard let (mark, head) = try await lastCommonMark(&summary.patience) else { throw cause }
        let followed = try await store.follow(mark, head: head)
        summary.followed = followed.position
        summary.returned += followed.transactions
        logger.warning(
            "the relay was restored from a backup; what it lost is sent again",
            metadata: ["from": "\(followed.position)", "transactions": "\(followed.transactions)"])
        return followed.status
    }

    /// The last of the marks that the relay's log has, too, with that log's head; nil where it has none.
    private func lastCommonMark(_ patience: inout ExchangePatience) async throws -> (LogMark, head: Position)? {
        let marks = try await store.keptLogMarks()
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

    /// The head of the relay's log, if that log is the same up to a mark.
    private func head(of mark: LogMark, _ patience: inout ExchangePatience) async throws -> Position? {
        do {
            return try await request(&patience) { [transport] in
                try await transport.pull(after: mark.position, seen: mark, byteLimit: 1, wait: nil)
            }.head
        } catch let error as AnnalsError where error.code == .relayWentBack {
            return nil
        }
    }
}
