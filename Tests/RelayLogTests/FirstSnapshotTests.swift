import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// The snapshot that a log begins with: the one of its first entry, or the one that a purge left.
@Suite(.timeLimit(.minutes(20))) struct FirstSnapshotTests {
    let directory: TemporaryDirectory
    let clock = TestClock()
    let log: RelayLog
    let lineage: Lineage

    private static let ann = ReplicaOwner.token(1)
    private static let bob = ReplicaOwner.token(2)
    private static let mallory = ReplicaOwner.token(3)

    /// Ann creates the space, and the others write.
    init() async throws {
        directory = try TemporaryDirectory()
        log = try TestStorage.log(directory.path, clock: clock.clock)
        lineage = try await log.createSpace(.shop).lineage
        var replicas = (1...3).map { TestReplica(UInt64($0)) }
        for number in 0..<6 {
            let batch = replicas[number % 3].batch(lineage, base: try await log.describe(.shop).head, .writing(UInt64(number)))
            let owner = [Self.ann, Self.bob, Self.mallory][number % 3]
            #expect(try await log.push(batch.bytes, header: batch.header(), to: .shop, by: owner).outcome == .accepted)
            replicas[number % 3].accept(batch)
        }
    }

    @discardableResult
    private func bring(_ position: Int64, by owner: ReplicaOwner?) async throws -> SnapshotRecord {
        let upload = try await log.snapshots.begin(.shop, position: Position(position), by: Taker(credential: owner, space: .shop))
        return try await upload.complete((0..<64).map { _ in UInt8.random(in: 0 ... .max) })
    }

    private func say(_ isGood: Bool, _ snapshot: SnapshotRecord, by owner: ReplicaOwner) async throws {
        let check = SnapshotCheck(position: snapshot.position, digest: snapshot.digest, isGood: isGood)
        _ = try await log.check(check, of: .shop, by: owner)
    }

    /// The positions of the trusted snapshots.
    private var trusted: [Int64] {
        get async throws {
            try await log.reading { db in
                let space = try #require(try LogStorage.space(.shop, in: db))
                let snapshots = try SpaceSnapshots(of: space.id, horizon: space.horizon, in: db)
                return snapshots.all.filter(snapshots.isTrusted).map(\.position.rawValue)
            }
        }
    }

    private func purge(forced: Bool = false) async throws -> Int64 {
        var rules = PurgeRules.asked(keep: 0, isForced: forced)
        (rules.keep, rules.retention) = (-1, -1)
        return try await log.purge(.shop, rules).horizon.rawValue
    }

    @Test func `that of the first entry is trusted where it is of that entry's owner, who may put it in another's place`() async throws {
        let theirs = try await bring(1, by: Self.mallory)
        #expect(try await trusted == [])
        #expect(try await purge() == 0)
        // It is compared like any other snapshot.
        let seen = LogMark(lineage: lineage, position: Position(6), replica: TestReplica(2).id)
        #expect(try await log.pull(from: .shop, after: Position(6), seen: seen, by: Self.bob).snapshotToCheck == Position(1))
        let own = try await bring(1, by: Self.ann)
        #expect(try await trusted == [1])
        #expect(try await log.snapshots.open(.shop).record.digest == own.digest && own.digest != theirs.digest)
        await #expect(throws: RelayLogError.self) { try await bring(1, by: Self.mallory) }
        await #expect(throws: RelayLogError.self) { try await bring(1, by: Self.ann) }
        #expect(try await purge() == 1)
        await log.close()
    }

    @Test func `one of the first entry by another owner is trusted once a further owner has confirmed it`() async throws {
        let theirs = try await bring(1, by: Self.bob)
        try await say(true, theirs, by: Self.mallory)
        #expect(try await trusted == [1])
        await #expect(throws: RelayLogError.self) { try await bring(1, by: Self.ann) }
        await log.close()
    }

    @Test func `that of the first entry stays trusted when its author goes on with another token`() async throws {
        try await bring(1, by: Self.ann)
        #expect(try await log.release(TestReplica(1).id, of: .shop))
        #expect(try await trusted == [1])
        await log.close()
    }

    @Test func `one before the first entry is nobody's word for the rows of all`() async throws {
        try await bring(0, by: Self.mallory)
        #expect(try await trusted == [])
        await log.close()
    }

    @Test func `where a purge let the log begin is trusted, and one that comes there later is not`() async throws {
        try await bring(1, by: Self.ann)
        try await bring(4, by: Self.bob)
        #expect(try await trusted == [1])
        #expect(try await purge(forced: true) == 4)
        #expect(try await trusted == [4])
        // Its file is lost, and its record with it.
        try await log.database.storage.write { try LogStorage.dropSnapshot(at: Position(4), of: 1, in: $0) }
        let made = try await bring(4, by: Self.mallory)
        #expect(try await trusted == [])
        try await say(true, made, by: Self.ann)
        #expect(try await trusted == [4])
        await log.close()
    }

    @Test func `what a relay without tokens has taken is trusted when it has tokens later`() async throws {
        let path = directory.path + "/open"
        let log = try TestStorage.log(path, clock: clock.clock)
        let lineage = try await log.createSpace(.shop).lineage
        var replicas = (1...2).map { TestReplica(UInt64($0)) }
        for number in 0..<4 {
            let batch = replicas[number % 2].batch(lineage, base: try await log.describe(.shop).head, .writing(UInt64(number)))
            #expect(try await log.push(batch).outcome == .accepted)
            replicas[number % 2].accept(batch)
        }
        for position in [1, 3] as [Int64] {
            let upload = try await log.snapshots.begin(.shop, position: Position(position))
            try await upload.complete([UInt8(position)])
        }
        func trusted() async throws -> [Int64] {
            try await log.reading { db in
                let space = try #require(try LogStorage.space(.shop, in: db))
                let snapshots = try SpaceSnapshots(of: space.id, horizon: space.horizon, in: db)
                return snapshots.all.filter(snapshots.isTrusted).map(\.position.rawValue)
            }
        }
        for (place, owner) in [Self.ann, Self.bob].enumerated() {
            let batch = replicas[place].batch(lineage, base: try await log.describe(.shop).head, .writing(9))
            _ = try await log.push(batch.bytes, header: batch.header(), to: .shop, by: owner)
            replicas[place].accept(batch)
        }
        #expect(try await trusted() == [1])
        #expect(try await log.purge(.shop, .asked(keep: -1, isForced: true)).horizon == Position(3))
        #expect(try await trusted() == [3])
        await log.close()
    }
}
