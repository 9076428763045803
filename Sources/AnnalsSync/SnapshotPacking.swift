import AnnalsCore
import AnnalsStore
import AnnalsWire

/// Snapshots between the form that SQLite reads and the one that travels.
enum SnapshotPacking {
    static func pack(_ plain: String, _ packed: String, progress: (Int64) -> Void = { _ in }) throws -> Compression.FileResult {
        do {
            return try Compression.compressFile(at: plain, to: packed, progress: progress)
        } catch let error as AnnalsError where error.code == .diskFull {
            throw diskFull
        } catch {
            throw AnnalsError(.diskFull, operation: "join", "the snapshot cannot be written: \(error)", hint: "Check the disk")
        }
    }

    private static var diskFull: AnnalsError {
        AnnalsError(.diskFull, operation: "join", "the disk is full", hint: "Make room; nothing was changed")
    }

    static func unpack(_ packed: String, _ plain: String) throws {
        do {
            _ = try Compression.decompressFile(at: packed, to: plain, maximumBytes: SyncLimits.snapshotBytes)
        } catch let error as AnnalsError where error.code == .diskFull {
            throw diskFull
        } catch let error as AnnalsError {
            throw error
        } catch {
            throw AnnalsError(
                .corruptBatch, operation: "clone", "the relay's snapshot cannot be unpacked: \(error)", hint: "Nothing was made")
        }
    }
}
