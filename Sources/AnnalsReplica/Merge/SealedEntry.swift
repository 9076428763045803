import AnnalsCore
import AnnalsWire

/// Opens a batch of the log. If that fails, the error has the reason and the position.
enum SealedEntry {
    /// - Throws: `AnnalsError` with code `missingKey` if the replica lacks the key, or with code `corruptBatch` if a sealed entry was
    ///   altered, belongs to another space or log, or is not sealed in an encrypted space. `WireError` for all other problems.
    package static func open(_ bytes: [UInt8], at position: Position, _ state: ReplicaState, _ cipher: SpaceCipher?) throws -> Batch {
        do {
            let batch = try Batch.open(bytes, cipher: cipher)
            // It was sealed with the space's key, but for another log.
            guard cipher == nil || batch.header.lineage == state.lineage else { throw WireError.badSeal }
            return batch
        } catch WireError.missingKey(let id) {
            throw missingKey(id, at: position, state, cipher)
        } catch WireError.notSealed {
            throw AnnalsError(
                .corruptBatch, operation: "sync", "the entry at position \(position) is not encrypted, but the space \(state.space) is",
                hint: "Its author did not have the space's key; nothing was applied",
                entry: RefusedEntry(position: position, rule: .badSeal))
        } catch WireError.badSeal {
            throw AnnalsError(
                .corruptBatch, operation: "sync",
                "the seal of the entry at position \(position) is broken: the entry is not what its author sent",
                hint: "Nothing was applied", entry: RefusedEntry(position: position, rule: .badSeal))
        }
    }

    private static func missingKey(_ id: UInt64, at position: Position, _ state: ReplicaState, _ cipher: SpaceCipher?) -> AnnalsError {
        let name = SpaceKey.name(of: id)
        guard cipher != nil else {
            return AnnalsError(
                .missingKey, operation: "sync",
                "the entry at position \(position) is encrypted with the key \(name), but the space \(state.space) was joined "
                    + "without a key",
                hint: "Nothing was applied", entry: RefusedEntry(position: position, rule: .missingKey))
        }
        return AnnalsError(
            .missingKey, operation: "sync",
            "the entry at position \(position) is encrypted with the key \(name), which is not in "
                + (state.spaceKeyFile ?? "the given keys"),
            hint: "Put the space's new key file there and sync again; nothing was applied",
            entry: RefusedEntry(position: position, rule: .missingKey))
    }
}
