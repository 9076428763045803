import AnnalsCore
import AnnalsWire

/// Opens a batch of the log, and says of one that does not open why and where.
enum SealedEntry {
    /// - Throws: `AnnalsError`: `missingKey` where the replica lacks the key, `corruptBatch` where the entry is sealed and was
    ///   altered, is of another space or log, or is not sealed in a space that is; `WireError` for what else is wrong.
    package static func open(_ bytes: [UInt8], at position: Position, _ state: ReplicaState, _ cipher: SpaceCipher?) throws -> Batch {
        do {
            let batch = try Batch.open(bytes, cipher: cipher)
            // Sealed by who has the key, but for another log.
            guard cipher == nil || batch.header.lineage == state.lineage else { throw WireError.badSeal }
            return batch
        } catch WireError.missingKey(let id) {
            throw missingKey(id, at: position, state, cipher)
        } catch WireError.notSealed {
            throw AnnalsError(
                .corruptBatch, operation: "sync", "the entry at position \(position) is not sealed, as all of the space \(state.space) is",
                hint: "It is by nobody who has the space's key; nothing was applied",
                entry: RefusedEntry(position: position, rule: .badSeal))
        } catch WireError.badSeal {
            throw AnnalsError(
                .corruptBatch, operation: "sync", "the seal of the entry at position \(position) is broken: it is not what its author sent",
                hint: "Nothing was applied", entry: RefusedEntry(position: position, rule: .badSeal))
        }
    }

    private static func missingKey(_ id: UInt64, at position: Position, _ state: ReplicaState, _ cipher: SpaceCipher?) -> AnnalsError {
        let name = SpaceKey.name(of: id)
        guard cipher != nil else {
            return AnnalsError(
                .missingKey, operation: "sync",
                "the entry at position \(position) is sealed under the key \(name), and the space \(state.space) was joined without one",
                hint: "Nothing was applied", entry: RefusedEntry(position: position, rule: .missingKey))
        }
        return AnnalsError(
            .missingKey, operation: "sync",
            "the entry at position \(position) is sealed under the key \(name), which \(state.spaceKeyFile ?? "the key that is given") does not hold",
            hint: "Put the space's new key file there and sync again; nothing was applied",
            entry: RefusedEntry(position: position, rule: .missingKey))
    }
}
