import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Synchronization
import Testing

/// False answers of a relay, or of something between it and the replica, and the reaction of a replica.
@Suite struct LyingRelayTests {
    private static let schema = "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')"

    private func note(_ world: SyncedStores, _ index: Int, _ id: String) throws {
        try world.outside(index, "INSERT INTO note VALUES('\(id)', 'from \(index)')")
    }

    private func world(_ replicas: Int) async throws -> SyncedStores {
        let world = try await SyncedStores(replicas: replicas, schema: Self.schema)
        for index in 0..<replicas { try note(world, index, "start \(index)") }
        try await world.settle()
        return world
    }

    @Test(arguments: [PushAnswer.Outcome.accepted, .stale(at: nil), .gap, .identityConflict])
    func `an older answer is not believed, and nothing of the push gets lost`(outcome: PushAnswer.Outcome) async throws {
        let world = try await world(2)
        let before = try #require(await world.stores[0].replicaState())
        // Answers each push like the first one, except for the outcome.
        let repeats = Mutex(false)
        let first = Mutex<PushAnswer?>(nil)
        let relay = AlteredRelay(
            base: world.relay,
            answer: { batch, seen in
                if repeats.withLock({ $0 }), var answer = first.withLock({ $0 }) {
                    answer.outcome = outcome
                    return answer
                }
                let answer = try await world.relay.push(batch, seen: seen)
                first.withLock { $0 = $0 ?? answer }
                return answer
            })
        try note(world, 0, "one")
        try await world.sync(0, over: relay)
        try note(world, 0, "two")
        repeats.withLock { $0 = true }
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(0, over: relay) }
        #expect(error?.code == .notARelay && error?.isRetryable == true, "\(String(describing: error))")
        let after = try #require(await world.stores[0].replicaState())
        #expect(after.replica == before.replica)
        #expect(try await world.stores[0].updateOutbox().outbox == 1)
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
        #expect(try await world.rows(1, "SELECT count(*) FROM note WHERE id IN ('one', 'two')") == [[2.databaseValue]])
    }

    @Test(arguments: [0, 1, 2])
    func `an entry that a relay leaves out is missed by the next one of its author`(left: Int) async throws {
        let world = try await world(2)
        for id in ["one", "two", "three"] {
            try note(world, 0, id)
            try await world.sync(0)
        }
        let state = try #require(await world.stores[1].replicaState())
        let relay = AlteredRelay.omitting(state.position.advanced(by: left + 1), world.relay)
        if left == 2 {
            // The newest entry of all is left out. No later entry reveals this, until its author writes again.
            try await world.sync(1, over: relay)
            try note(world, 0, "four")
            try await world.sync(0)
        }
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1, over: relay) }
        #expect(error?.code == .relayInconsistent, "\(String(describing: error))")
        let evidence = try #require(await world.stores[1].logEvidence())
        #expect(evidence.kind == .missingEntry && evidence.author.isSigned && evidence.here.isSigned)
        #expect(evidence.author.replica == (try await world.stores[0].replicaState()?.replica.description))
        try Self.checkWithOtherSoftware(evidence, in: world.folder)
        // Nothing more is exchanged, also not with the original relay, and local work continues.
        let again = await #expect(throws: AnnalsError.self) { try await world.sync(1) }
        #expect(again?.code == .relayInconsistent)
        try note(world, 1, "local")
        #expect(try await world.stores[1].verify().map(\.code) == [.relay])
        try await world.stores[1].leave(force: true)
        #expect(try await world.stores[1].verify().isEmpty)
    }

    @Test func `two logs for two replicas are found out by the first entry that crosses`() async throws {
        let world = try await world(4)
        let folder = world.folder.file("other")
        try FileManager.default.copyItem(atPath: world.folder.file("relay"), toPath: folder)
        let other = try LocalRelay(folder: folder, space: world.space)
        // World A: replica 1 writes, replica 0 sees it and writes. World B: replica 2 writes, and replica 3 sees it.
        try note(world, 1, "in A")
        try await world.sync(1)
        try await world.sync(0)
        try note(world, 2, "in B")
        try await world.sync(2, over: other)
        try await world.sync(3, over: other)
        for index in [2, 3] { #expect(try await world.stores[index].logEvidence() == nil) }
        try note(world, 0, "crosses")
        try await world.sync(0)
        // The relay shows replica 3 the entry of replica 0 from the other world.
        let entry = try #require(await world.relay.pull(after: .zero, seen: seen(world, 0), byteLimit: 1 << 20, wait: nil).frames.last)
        let digest = try await world.stores[3].digest()
        let relay = AlteredRelay(
            base: other,
            page: { page, _ in
                var entry = entry
                entry.firstPosition = page.lastPosition.next
                page.head = entry.firstPosition
                page.frames.append(entry)
            })
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(3, over: relay) }
        #expect(error?.code == .relayInconsistent, "\(String(describing: error))")
        #expect(try await world.stores[3].digest() == digest)
        let evidence = try #require(await world.stores[3].logEvidence())
        #expect(evidence.kind == .otherLog && evidence.author.isSigned && evidence.here.isSigned)
        #expect(evidence.author.position == evidence.here.position && evidence.author.digest != evidence.here.digest)
        // The signed message is the one of the batch's clear part.
        #expect(evidence.author.message == Data(BatchSignature.message(clear: [UInt8](evidence.clearPart)[...])))
        try Self.checkWithOtherSoftware(evidence, in: world.folder)
        try note(world, 3, "local work goes on")
        #expect(try await world.stores[3].verify().map(\.code) == [.relay])
    }

    /// Python and openssl have the same result, and detect each changed byte.
    private static func checkWithOtherSoftware(_ evidence: LogEvidence, in folder: TemporaryFolder) throws {
        func status(_ evidence: LogEvidence) throws -> Int32 {
            let path = folder.file("proof-\(ReplicaID.random()).json")
            try JSONEncoder().encode(evidence).write(to: URL(fileURLWithPath: path))
            let process = Process()
            let script = URL(fileURLWithPath: #filePath).appending(path: "../../../Scripts/check-evidence").standardized
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["python3", script.path, path]
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            return process.terminationStatus
        }
        #expect(try status(evidence) == 0)
        let parts: [WritableKeyPath<LogEvidence, Data>] = [
            \.clearPart, \.author.message, \.author.signature, \.author.publicKey, \.here.message, \.here.signature, \.here.publicKey,
        ]
        for part in parts {
            var changed = evidence
            changed[keyPath: part][changed[keyPath: part].count - 1] ^= 1
            #expect(try status(changed) == 1)
        }
    }

    @Test func `an entry that its author did not sign is refused, and named`() async throws {
        let world = try await world(2)
        try note(world, 0, "one")
        try await world.sync(0)
        let state = try #require(await world.stores[1].replicaState())
        // Replaces the batch with one of its own in that member's name.
        let relay = AlteredRelay(
            base: world.relay,
            page: { page, _ in
                for (index, frame) in page.frames.enumerated() where frame.firstPosition == state.position.next {
                    var bytes = frame.batch
                    let header = try BatchHeader.parse(bytes)
                    bytes[header.signature.lowerBound] ^= 1
                    page.frames[index].batch = AlteredRelay.checksummed(bytes)
                }
            })
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1, over: relay) }
        #expect(error?.code == .corruptBatch, "\(String(describing: error))")
        #expect(error?.message.contains("position \(state.position.next)") == true, "\(error?.message ?? "")")
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }

    private func seen(_ world: SyncedStores, _ index: Int) async throws -> LogMark {
        LogMark(lineage: try #require(await world.stores[index].replicaState()).lineage)
    }
}

extension AlteredRelay {
    /// Leaves one entry out of the log, and renumbers the later ones.
    static func omitting(_ position: Position, _ base: any RelayTransport) -> AlteredRelay {
        AlteredRelay(
            base: base,
            ask: { after, seen in
                // Its reader has not seen the real log.
                seen = LogMark(lineage: seen.lineage, replica: seen.replica)
                if after >= position { after = after.next }
            },
            page: { page, _ in
                page.frames = page.frames.compactMap { frame in
                    guard frame.firstPosition != position else { return nil }
                    var frame = frame
                    if frame.firstPosition > position { frame.firstPosition = frame.firstPosition.advanced(by: -1) }
                    return frame
                }
                if page.head >= position { page.head = page.head.advanced(by: -1) }
            })
    }
}
