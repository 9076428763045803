import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// The snapshots of a space and its running uploads together have a limited number of bytes.
@Suite(.timeLimit(.minutes(20))) struct SnapshotRoomTests {
    let directory: TemporaryDirectory
    let clock = TestClock()
    let log: RelayLog
    let lineage: Lineage

    private static let ann = ReplicaOwner.token(1)
    private static let bob = ReplicaOwner.token(2)
    private static let mallory = ReplicaOwner.token(3)
    private static let spaceBytes: Int64 = 20_000

    init() async throws {
        directory = try TemporaryDirectory()
        var limits = RelayLogLimits()
        limits.spaceBytes = Self.spaceBytes
        log = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        lineage = try await log.createSpace(.shop).lineage
    }

    /// Appends this number of entries, by these owners in turn.
    private func fill(_ count: Int, by owners: ReplicaOwner?...) async throws {
        var replicas = owners.indices.map { TestReplica(UInt64($0 + 1)) }
        for number in 0..<count {
            let place = number % owners.count
            let head = try await log.describe(.shop).head
            let batch = replicas[place].batch(lineage, base: head, .writing(UInt64(number)), payload: [1])
            #expect(try await log.push(batch.bytes, header: batch.header(), to: .shop, by: owners[place]).outcome == .accepted)
            replicas[place].accept(batch)
        }
    }

    /// Bytes of a snapshot of about this size that cannot be compressed.
    private static func bytes(_ count: Int) -> [UInt8] { TestSnapshot.bytes((0..<count).map { _ in UInt8.random(in: 0 ... .max) }) }

    @discardableResult
    private func bring(_ position: Int64, _ count: Int = 10, by owner: ReplicaOwner? = nil) async throws -> SnapshotRecord {
        let upload = try await log.snapshots.begin(.shop, position: Position(position), by: Taker(credential: owner, space: .shop))
        let bytes = Self.bytes(count)
        try await upload.write(bytes)
        return try await upload.finish(digest: .sha256(bytes[...]))
    }

    private func say(_ isGood: Bool, _ snapshot: SnapshotRecord, by owner: ReplicaOwner) async throws {
        let check = SnapshotCheck(position: snapshot.position, digest: snapshot.digest, isGood: isGood)
        _ = try await log.check(check, of: .shop, by: owner)
    }

    private func positions() async throws -> [Int64] {
        try await log.reading { try LogStorage.snapshots(of: 1, in: $0).map(\.position.rawValue) }
    }

    /// The bytes of all recorded snapshots. Each has a file, and there is no other file.
    private func stored() async throws -> Int64 {
        let names = try log.database.snapshots.names()
        let recorded = try await log.reading { try LogStorage.snapshotFiles(in: $0) }
        #expect(Set(names) == Set(recorded))
        return try await log.reading { try LogStorage.snapshotBytes(of: 1, in: $0) }
    }

    private func isFull(_ body: () async throws -> Void) async {
        await #expect {
            try await body()
        } throws: {
            if case .spaceFull(Self.spaceBytes)? = $0 as? RelayLogError { true } else { false }
        }
    }

    @Test func `however many are brought, together they have no more bytes than the space may have`() async throws {
        try await fill(12, by: nil)
        for position in 1...12 as ClosedRange<Int64> {
            try await bring(position, 5_000)
            #expect(try await stored() <= Self.spaceBytes)
        }
        // The first and the newest snapshot stay, and between them the one that is furthest from both.
        let positions = try await positions()
        #expect(positions.first == 1 && positions.last == 12 && positions.count == 3)
        #expect(try await log.snapshots.open(.shop).record.position == Position(12))
        await log.close()
    }

    @Test func `what purges and clones rest on stays, and what does not fit beside it is refused before it is here`() async throws {
        try await fill(9, by: Self.ann, Self.bob)
        try await bring(1, 3_000, by: Self.ann)
        let good = try await bring(4, 9_000, by: Self.ann)
        try await say(true, good, by: Self.bob)
        let upload = try await log.snapshots.begin(.shop, position: Position(8), by: Taker(credential: Self.mallory, space: .shop))
        let bytes = Self.bytes(9_000)
        try await upload.write(Array(bytes[..<5_000]))
        await isFull { try await upload.write(Array(bytes[5_000...])) }
        #expect(await upload.hasEnded)
        #expect(try await positions() == [1, 4])
        #expect(try await stored() <= Self.spaceBytes)
        // Before the first byte, if its sender states the size.
        await isFull { _ = try await log.snapshots.begin(.shop, position: Position(8), of: 9_000) }
        try await bring(8, 5_000, by: Self.ann)
        #expect(try await log.snapshots.open(.shop).record.position == Position(4))
        await log.close()
    }

    @Test func `uploads under way count, and give their room back when they end`() async throws {
        try await fill(3, by: nil)
        let (one, two) = (
            try await log.snapshots.begin(.shop, position: Position(2)), try await log.snapshots.begin(.shop, position: Position(3))
        )
        let bytes = Self.bytes(12_000)
        try await one.write(Array(bytes[..<11_000]))
        try await two.write(Array(bytes[..<5_000]))
        await isFull { try await two.write(Array(bytes[5_000..<10_000])) }
        await one.abandon()
        try await bring(3, 12_000)
        await isFull { try await bring(3, 12_000) }
        #expect(try await positions() == [3])
        await log.close()
    }

    @Test func `a space has its bytes alone, and other spaces have theirs`() async throws {
        try await fill(1, by: nil)
        _ = try await log.createSpace(.other)
        let upload = try await log.snapshots.begin(.other, position: .zero)
        try await upload.write(Self.bytes(15_000))
        try await bring(1, 15_000)
        await upload.abandon()
        await log.close()
    }

    @Test func `of one owner one is kept that nobody has confirmed`() async throws {
        try await fill(9, by: Self.ann, Self.bob)
        try await bring(1, by: Self.ann)
        let good = try await bring(2, by: Self.ann)
        try await say(true, good, by: Self.bob)
        try await bring(3, by: Self.ann)
        try await bring(4, by: Self.mallory)
        try await bring(5, by: Self.ann)
        #expect(try await positions() == [1, 2, 4, 5])
        try await bring(6, by: Self.mallory)
        #expect(try await positions() == [1, 2, 5, 6])
        await log.close()
    }

    @Test func `what was refuted, or is of a quarantined owner, goes first where room is short`() async throws {
        try await fill(9, by: Self.ann, Self.bob, Self.mallory)
        try await bring(1, by: Self.ann)
        let bad = try await bring(3, 6_000, by: Self.mallory)
        try await say(false, bad, by: Self.ann)
        try await bring(4, 6_000, by: Self.bob)
        #expect(try await positions() == [1, 3, 4])
        _ = try await log.database.quarantine(Self.bob.text, of: .shop, now: clock.now)
        try await bring(5, 9_000, by: Self.ann)
        #expect(try await positions() == [1, 4, 5])
        try await bring(6, 9_000, by: Self.ann)
        #expect(try await positions() == [1, 6])
        #expect(try await stored() <= Self.spaceBytes)
        await log.close()
    }

    @Test func `junk that was refuted does not keep pushes out of a space`() async throws {
        try await fill(3, by: Self.ann, Self.bob, Self.mallory)
        try await bring(1, by: Self.ann)
        let bad = try await bring(2, 14_000, by: Self.mallory)
        var other = TestReplica(9)
        let batch = other.batch(lineage, base: Position(3), .writing(99), payload: [UInt8](repeating: 7, count: 6_000))
        func push() async throws -> PushAnswer { try await log.push(batch.bytes, header: batch.header(), to: .shop, by: Self.ann) }
        // The size of all snapshots is read again from time to time.
        clock.advance(milliseconds: RelayLogLimits().spaceUseMilliseconds)
        await isFull { _ = try await push() }
        try await say(false, bad, by: Self.bob)
        #expect(try await push().outcome == .accepted)
        other.accept(batch)
        #expect(try await positions() == [1])
        #expect(try await stored() < 1_000)
        await log.close()
    }

    @Test func `an owner's junk is not in the way of what another brings at the same or an earlier position`() async throws {
        try await fill(6, by: Self.ann, Self.bob, Self.mallory)
        try await bring(1, by: Self.ann)
        let bad = try await bring(5, by: Self.mallory)
        await #expect(throws: RelayLogError.self) { try await bring(5, by: Self.bob) }
        await #expect(throws: RelayLogError.self) { try await bring(4, by: Self.bob) }
        try await say(false, bad, by: Self.ann)
        try await bring(4, by: Self.ann)
        try await bring(5, by: Self.bob)
        #expect(try await positions() == [1, 4, 5])
        #expect(try await log.reading { try LogStorage.snapshots(of: 1, in: $0).last?.owner } == Self.bob.text)
        // Also a snapshot of a quarantined owner, until the quarantine is lifted.
        try await bring(6, by: Self.mallory)
        await #expect(throws: RelayLogError.self) { try await bring(6, by: Self.ann) }
        _ = try await log.database.quarantine(Self.mallory.text, of: .shop, now: clock.now)
        try await bring(6, by: Self.ann)
        await log.close()
    }

    @Test func `the same bytes that were refuted stay refuted`() async throws {
        try await fill(6, by: Self.ann, Self.bob)
        let bytes = Self.bytes(10)
        func verdict() async throws -> SnapshotVerdict {
            let upload = try await log.snapshots.begin(.shop, position: Position(5), by: Taker(credential: Self.mallory, space: .shop))
            try await upload.write(bytes)
            _ = try await upload.finish(digest: .sha256(bytes[...]))
            return try await log.snapshots.open(.shop, atOrBefore: Position(5), exact: true).record.verdict
        }
        #expect(try await verdict() == .unchecked)
        try await say(false, log.snapshots.open(.shop, atOrBefore: Position(5), exact: true).record, by: Self.bob)
        #expect(try await verdict() == .refuted)
        #expect(try await stored() > 0)
        await log.close()
    }

    @Test func `who reads one that goes reads on, and who comes then gets another`() async throws {
        try await fill(9, by: Self.ann, Self.bob)
        try await bring(1, by: Self.ann)
        let old = try await bring(4, 8_000, by: Self.ann)
        let file = try await log.snapshots.open(.shop, atOrBefore: Position(4), exact: true)
        let head = try await file.read(at: 0, count: 100)
        try await bring(6, 9_000, by: Self.ann)
        let bytes = try await head + file.read(at: 100, count: 20_000)
        #expect(Digest.sha256(bytes[...]) == old.digest)
        await #expect {
            _ = try await log.snapshots.open(.shop, atOrBefore: Position(4), exact: true)
        } throws: {
            if case .noSnapshot? = $0 as? RelayLogError { true } else { false }
        }
        #expect(try await log.snapshots.open(.shop, atOrBefore: Position(4)).record.position == Position(1))
        await log.close()
    }

    @Test func `a purge does not rest on a snapshot that went since it was planned`() async throws {
        try await fill(9, by: nil)
        for position in [1, 4, 8] as [Int64] { try await bring(position, 5_000) }
        log.note(TestReplica(5).id, named: "late", at: Position(6), in: .shop)
        var rules = PurgeRules()
        rules.keep = -1
        let plan = try await log.purge(.shop, rules, commits: false)
        #expect(plan.horizon == Position(4))
        try await bring(9, 9_000)
        #expect(try await positions() == [1, 8, 9])
        let begun = try await log.database.storage.write {
            try RelayDatabase.begin(plan, of: 1, nil, at: 1, limits: RelayLogLimits(), in: $0)
        }
        #expect(begun == nil)
        #expect(try await log.describe(.shop).horizon == .zero)
        #expect(try await log.purge(.shop, rules).horizon == Position(1))
        await log.close()
    }

    @Test func `two requests that add to one upload at once do not mix, and the second is answered with what is here`() async throws {
        try await fill(2, by: nil)
        let bytes = Self.bytes(9_000)
        let digest = Digest.sha256(bytes[...])
        let upload = try await log.snapshots.uploadInParts(.shop, position: Position(2), digest: digest)
        let part = Array(bytes[..<4_000])
        let outcomes = await withTaskGroup { group in
            for _ in 1...4 {
                group.addTask { try? await upload.add(part, at: 0, partDigest: nil, of: Int64(bytes.count), digest: digest) }
            }
            return await group.reduce(into: [Bool?]()) { $0.append($1) }
        }
        #expect(outcomes.compactMap(\.self) == [false])
        #expect(try await upload.add(Array(bytes[4_000...]), at: 4_000, partDigest: nil, of: Int64(bytes.count), digest: digest))
        #expect(try await positions() == [2])
        await log.close()
    }
}
