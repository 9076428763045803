import AnnalsCore
import AnnalsReplica
import AnnalsSQLite
import AnnalsStore
import AnnalsWire

/// Converts snapshots between a SQLite file and the form that is sent.
enum SnapshotPacking {
    /// - Parameter sealer: seals the packed bytes. nil if the space is not sealed.
    static func pack(
        _ plain: String, _ packed: String, sealer: SnapshotSealer? = nil, progress: (Int64) -> Void = { _ in }
    ) throws -> Compression.FileResult {
        do {
            return try Compression.compressFile(at: plain, to: packed, sealer: sealer, progress: progress)
        } catch let error as AnnalsError where error.code == .diskFull {
            throw diskFull
        } catch {
            throw AnnalsError(.diskFull, operation: "join", "the snapshot cannot be written: \(error)", hint: "Check the disk")
        }
    }

    private static var diskFull: AnnalsError {
        AnnalsError(.diskFull, operation: "join", "the disk is full", hint: "Free disk space and try again. Nothing was changed")
    }

    /// Runs `body`, which unpacks a snapshot, and converts its errors to messages.
    ///
    /// - Parameter space: the space of the snapshot.
    static func unpacking<T>(_ cipher: SpaceCipher?, of space: SpaceName, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as AnnalsError where error.code == .diskFull {
            throw diskFull
        } catch let error as AnnalsError {
            throw error
        } catch WireError.missingKey(let id) {
            guard cipher != nil else { throw AnnalsError.keyNeeded(for: space, id, operation: "clone") }
            throw AnnalsError.otherKey(for: space, id, nil, operation: "clone")
        } catch WireError.notSealed {
            throw AnnalsError.notSealed(space, operation: "clone")
        } catch WireError.badSeal {
            throw AnnalsError(
                .corruptBatch, operation: "clone", "the seal of the relay's snapshot is broken: no replica of the space sent this snapshot",
                hint: "Nothing was created")
        } catch {
            throw AnnalsError(
                .corruptBatch, operation: "clone", "the relay's snapshot cannot be unpacked: \(error)", hint: "Nothing was created")
        }
    }
}

extension SpaceCipher {
    /// A sealer for a snapshot of the rows at this position.
    func sealer(of mark: LogMark) throws -> SnapshotSealer {
        try SnapshotSealer(self, SnapshotSeal(self, lineage: mark.lineage, position: mark.position, logDigest: mark.digest))
    }
}
