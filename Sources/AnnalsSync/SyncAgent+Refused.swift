import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire

/// Handles a push that the relay refuses, for example because of a token that may only read.
///
/// Its transactions go back to the outbox. There they may be rewritten and do not block pulls. But the relay may have
/// accepted an earlier attempt with the same bytes, and its answer was lost. Then the log contains the transactions.
extension SyncAgent {
    /// Settles a refused push.
    ///
    /// - Parameter isUncertain: whether an earlier attempt got no answer.
    func giveBack(
        _ push: FrozenPush, isUncertain: Bool, _ refusal: AnnalsError, _ status: ExchangeStatus, _ patience: inout ExchangePatience
    ) async throws -> SettledPush {
        var answer = PushAnswer(
            outcome: .stale(at: nil), to: push.name, lineage: push.seen.lineage, head: status.head, receivedAt: 0)
        if isUncertain {
            do {
                try await lookUp(push, after: status.position, &answer, &patience)
            } catch let error as AnnalsError where error.code == .expired {
                // Only the relay knows whether it accepted the push. It answers when the same bytes are sent again.
                throw refusal
            }
        }
        return try await store.settle(answer, to: push)
    }

    /// Builds the lost answer from the log after a position.
    private func lookUp(
        _ push: FrozenPush, after position: Position, _ answer: inout PushAnswer, _ patience: inout ExchangePatience
    ) async throws {
        var after = position
        var isLast = false
        var pages = 0
        while !isLast {
            pages += 1
            guard pages <= SyncLimits.pagesLookedThrough else { throw Self.endlessLog(after: position) }
            let page = try await request(&patience) { [transport, after] in
                try await transport.page(after: after, seen: push.seen)
            }
            patience.renew()
            answer.head = max(answer.head, page.head)
            for frame in page.frames {
                guard let header = try? BatchHeader.parse(frame.batch) else { continue }
                for position in Self.positions(of: push, in: frame, header) where answer.positions.isEmpty || push.parts == 1 {
                    answer.positions.append(position)
                    answer.receivedAt = frame.receivedAt
                }
            }
            answer.head = max(answer.head, page.head)
            isLast = page.isLast || page.frames.isEmpty
            after = page.lastPosition
        }
        if answer.positions.count == (push.parts == 1 ? push.digests.count : 1) { answer.outcome = .accepted }
    }

    /// The positions of the push's transactions in a frame. For a transaction in parts, the position of its first part.
    private static func positions(of push: FrozenPush, in frame: LogFrame, _ header: BatchHeader) -> [Position] {
        header.certificates.indices.compactMap { index in
            let place = Int(header.counter(of: index).rawValue - push.firstCounter.rawValue)
            guard push.digests.indices.contains(place), header.certificates[index].digest == push.digests[place] else { return nil }
            return frame.position(of: index)
        }
    }

    static func waiting(_ outbox: Int, _ direction: SyncDirection, _ refusal: AnnalsError) -> AnnalsError {
        var error = refusal
        error.message += "; \(waits(outbox))"
        if direction == .both { error.message += "; the changes of other replicas were applied" }
        return error
    }

    private static func endlessLog(after position: Position) -> AnnalsError {
        AnnalsError(
            .notARelay, operation: "sync",
            "the relay's log after position \(position) is too long to search for a push that got no answer",
            hint: "The push is kept. Run sync again. If the error persists, ask the relay's operator", isRetryable: true)
    }
}
