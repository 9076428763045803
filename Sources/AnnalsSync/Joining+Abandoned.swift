import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire

/// Takes over a space that has a first entry but no rows. Its creator was interrupted forever: the file was lost or has
/// left the space. Only one store can upload the snapshot at the position of the first entry. So another store with the
/// same schema can upload its own. If the first store returns, it joins like any other store.
extension Joining {
    /// The log's first entry, if no entry followed for some time and this store could have written it.
    func abandonedFirstEntry(_ description: SpaceDescription, _ store: Store) async throws -> Store.FirstEntry? {
        guard description.head == Position.first, description.snapshot == nil else { return nil }
        let page = try await transport.page(after: .zero, seen: LogMark(lineage: description.lineage))
        guard page.head == Position.first, let frame = page.frames.first else { return nil }
        guard store.configuration.now() - frame.receivedAt > SyncLimits.abandonedAfterMilliseconds else { return nil }
        do {
            let batch = try frame.open(cipher: spaceKeys?.cipher(for: space))
            var body = try batch.body(frame.firstIndex)
            guard let entry = try body.schemaEntry(), try await store.hasSchema(of: entry) else { return nil }
            return Store.FirstEntry(author: batch.header.replica, digest: batch.header.certificates[frame.firstIndex].digest)
        } catch WireError.missingKey(let id) {
            guard spaceKeys != nil else { throw AnnalsError.keyNeeded(for: space, id, operation: "join") }
            throw AnnalsError.otherKey(for: space, id, nil, operation: "join")
        } catch WireError.notSealed {
            throw AnnalsError.notSealed(space, operation: "join")
        } catch is WireError {
            return nil
        }
    }
}
