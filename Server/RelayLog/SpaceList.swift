internal import AnnalsCore
package import AnnalsWire

extension RelayDatabase {
    /// All current spaces by name, also while another process serves the folder.
    ///
    /// Throws `RelayLogError.storage`.
    package func describeSpaces() async throws -> [SpaceDescription] {
        try await RelayLogError.wrapped {
            try await storage.read { db in
                try LogStorage.names(in: db).compactMap { try LogStorage.describe($0, in: db) }
            }
        }
    }
}

extension LogStorage {
    /// nil if there is no such space.
    static func describe(_ name: SpaceName, in db: any LogConnection) throws -> SpaceDescription? {
        guard let space = try space(name, in: db) else { return nil }
        return try describe(name, space, snapshot(of: space.id, in: db), in: db)
    }

    /// Describes a space and `newest` as its snapshot.
    static func describe(_ name: SpaceName, _ space: Space, _ newest: SnapshotRecord?, in db: any LogConnection) throws -> SpaceDescription
    {
        let snapshot = try newest.map {
            SpaceDescription.Snapshot(
                position: $0.position, bytes: $0.byteCount, digest: $0.digest.description,
                logDigest: try RunningDigests.at($0.position, of: space.id, in: db)?.description)
        }
        return SpaceDescription(space: name, lineage: space.lineage, head: space.head, horizon: space.horizon, snapshot: snapshot)
    }
}
