public import Annals
import AnnalsWire
import Foundation
import Logging

/// Tests that your own `RelayTransport` does what every transport must do. It can be a connection by another protocol,
/// or your own relay.
///
///     @Test("my transport is one")
///     func conformance() async throws {
///         let failures = try await TransportConformance.failures { space in try MyTransport(space: space) }
///         #expect(failures == [])
///     }
///
/// Two stores in memory sync through it. Then the same requests are sent again, out of order, damaged, and to another
/// log.
public enum TransportConformance {
    /// - Parameter make: returns a new transport to a space with this name, which must not exist. It is called more
    ///   than once for one space.
    /// - Returns: one sentence for each failed check. Empty if all checks pass.
    /// - Throws: the error that prevents any sync of the two stores.
    public static func failures(of make: @Sendable (SpaceName) async throws -> any RelayTransport) async throws -> [String] {
        let name = "conformance-\(UInt64.random(in: 0 ... .max))"
        guard let space = SpaceName(name) else { throw AnnalsError(.defect, "\(name) is not a valid space name") }
        let checks = try TransportChecks(space: space, transport: await make(space), other: await make(space))
        var failures = await checks.checkBeginning()
        try await checks.sync()
        failures += try await checks.checkPushes()
        failures += try await checks.checkPulls()
        failures += try await checks.checkWaiting()
        failures += try await checks.checkSnapshots()
        return failures
    }
}

/// The checks, in their order of execution.
private struct TransportChecks {
    let space: SpaceName
    let spy: SpyLine
    let other: any RelayTransport
    private let logger = Logger(label: "annals.testing", factory: { _ in SwiftLogNoOpLogHandler() })
    private let here: Store
    private let there: Store

    init(space: SpaceName, transport: any RelayTransport, other: any RelayTransport) throws {
        self.space = space
        spy = SpyLine(transport)
        self.other = other
        here = try Store(inMemory: nil)
        there = try Store(inMemory: nil)
    }

    // MARK: Helpers

    private func code(_ request: () async throws(TransportError) -> Void) async -> String {
        do {
            try await request()
            return "no refusal"
        } catch {
            switch error {
            case .problem(let problem, _): return problem.knownCode?.rawValue ?? "an unknown problem"
            case .cancelled: return "cancelled"
            default: return "\(error)"
            }
        }
    }

    private func expect(_ what: String, _ wanted: Problem.Code, _ request: () async throws(TransportError) -> Void) async -> [String] {
        let found = await code(request)
        return found == wanted.rawValue ? [] : ["\(what) must be refused with \(wanted.rawValue), but the result was: \(found)"]
    }

    private func expect(_ isTrue: Bool, _ sentence: String) -> [String] { isTrue ? [] : [sentence] }

    private func write(_ store: Store, _ value: String) async throws {
        try await store.write { db in
            try db.execute(sql: "INSERT INTO conformance VALUES (?, ?)", arguments: [value, String(repeating: value, count: 200)])
        }
    }

    private func state() async throws -> ReplicaState {
        guard let state = try await here.replicaState() else { throw AnnalsError(.defect, "the store has not joined a space") }
        return state
    }

    // MARK: A new space

    func checkBeginning() async -> [String] {
        await expect("a description of a space that does not exist", .spaceNotFound) { () async throws(TransportError) in
            _ = try await other.describe()
        }
    }

    /// Joins the stores. This creates the space, and uploads and downloads its first snapshot. Then each store sends
    /// something.
    func sync() async throws {
        let address = try SpaceAddress(space.description, at: "http://127.0.0.1:1", as: "conformance")
        for store in [here, there] {
            try await store.write { db in try db.execute(sql: "CREATE TABLE conformance (id TEXT PRIMARY KEY NOT NULL, value TEXT)") }
            try await store.track(.all)
            try await SyncAgent(store: store, transport: spy, joining: address, logger: logger).sync()
        }
        for round in 0..<3 {
            try await write(here, "here \(round)")
            try await write(there, "there \(round)")
            for store in [here, there, here] { try await SyncAgent(store: store, transport: spy, logger: logger).sync() }
        }
    }

    // MARK: Pushes

    func checkPushes() async throws -> [String] {
        var failures = expect(try await here.digest() == there.digest(), "two synced stores must have the same rows")
        failures += await expect("the creation of a space that exists", .spaceExists) { () async throws(TransportError) in
            _ = try await other.create()
        }
        guard let push = spy.lastPush else { return failures + ["the stores must push something"] }
        let head = try await other.describe().head
        let again = try await other.push(push.batch, seen: push.seen)
        failures += expect(
            again.outcome == .accepted && again.positions == push.answer.positions,
            "a repeated push must be answered with its positions in the log")
        failures += expect(try await other.describe().head == head, "a repeated push must add nothing to the log")
        failures += await expect("a push of damaged bytes", .corruptBatch) { () async throws(TransportError) in
            _ = try await other.push(Array(push.batch.prefix(push.batch.count / 2)), seen: push.seen)
        }
        var seen = push.seen
        seen.lineage = .random()
        failures += await expect("a push to another log", .logRolledBack) { () async throws(TransportError) in
            _ = try await other.push(push.batch, seen: seen)
        }
        return failures
    }

    // MARK: Pulls

    func checkPulls() async throws -> [String] {
        let state = try await state()
        let description = try await other.describe()
        var failures = expect(
            description.space == space.description && description.lineage == state.lineage,
            "a description must have the name and lineage of its space")
        failures += expect(description.head == state.position, "the head in a description must be the position of a synced store")
        var position = Position.zero
        var pages = 0
        let whole = LogMark(lineage: state.lineage)
        while position < description.head, pages <= description.head.rawValue {
            let page = try await other.pull(after: position, seen: whole, byteLimit: 1, wait: nil)
            failures += expect(!page.frames.isEmpty, "a page before the head must have a frame, even with a small byte limit")
            failures += expect(page.isLast == (page.lastPosition == description.head), "a page must state whether it is the last")
            guard page.lastPosition > position else { break }
            position = page.lastPosition
            pages += 1
        }
        failures += expect(position == description.head && pages > 1, "small pages, one after another, must reach the head")
        let empty = try await other.pull(after: state.position, seen: state.seen, byteLimit: 1 << 20, wait: nil)
        failures += expect(empty.frames.isEmpty && empty.isLast && empty.head == state.position, "a page after the head must be empty")
        failures += await expect("a pull after a position beyond the head", .logRolledBack) { () async throws(TransportError) in
            _ = try await other.pull(after: state.position.next, seen: whole, byteLimit: 1 << 20, wait: nil)
        }
        var seen = state.seen
        seen.lineage = .random()
        failures += await expect("a pull from another log", .logRolledBack) { () async throws(TransportError) in
            _ = try await other.pull(after: .zero, seen: seen, byteLimit: 1 << 20, wait: nil)
        }
        return failures
    }

    // MARK: Waiting

    func checkWaiting() async throws -> [String] {
        let state = try await state()
        let other = other
        let wait = Duration.seconds(20)
        let waiting = Task<Int, any Error> {
            try await other.pull(after: state.position, seen: state.seen, byteLimit: 1 << 20, wait: wait).frames.count
        }
        try await write(there, "news")
        try await SyncAgent(store: there, transport: spy, logger: logger).sync()
        let start = ContinuousClock.now
        var failures = expect(try await waiting.value > 0, "a waiting pull must return an entry that is pushed meanwhile")
        failures += expect(ContinuousClock.now - start < wait / 2, "a waiting pull must be answered as soon as something is pushed")

        try await SyncAgent(store: here, transport: spy, logger: logger).sync()
        let now = try await self.state()
        let given = Task<Int, any Error> {
            try await other.pull(after: now.position, seen: now.seen, byteLimit: 1 << 20, wait: wait).frames.count
        }
        given.cancel()
        let before = ContinuousClock.now
        do {
            _ = try await given.value
            failures.append("a pull must end when its task is cancelled, but it was answered")
        } catch let error as TransportError {
            if case .cancelled = error {
            } else {
                failures.append("a pull must throw `cancelled` when its task is cancelled, but it threw: \(error)")
            }
        }
        failures += expect(ContinuousClock.now - before < wait / 2, "a pull must end at once when its task is cancelled")
        return failures
    }

    // MARK: Snapshots

    func checkSnapshots() async throws -> [String] {
        let folder = FileManager.default.temporaryDirectory.path + "/\(space)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        guard let told = try await other.describe().snapshot else { return ["a description must contain the uploaded snapshot"] }
        let position = try await other.downloadSnapshot(to: folder + "/down") { _ in }
        let down = [UInt8](FileManager.default.contents(atPath: folder + "/down") ?? Data())
        var failures = expect(position == told.position, "a downloaded snapshot must have the position of the description")
        failures += expect(
            Digest.sha256(down[...]).description == told.digest && down.count == Int(told.bytes),
            "a downloaded snapshot must have the uploaded bytes")
        let seen = try await state().seen
        failures += await expect("an upload of a snapshot with a wrong digest", .badDigest) { () async throws(TransportError) in
            try await other.uploadSnapshot(at: folder + "/down", seen: seen, digest: Digest.sha256(down.dropLast())) { _ in }
        }
        failures += await expect("an upload of a snapshot older than the newest", .snapshotSuperseded) { () async throws(TransportError) in
            let old = LogMark(lineage: seen.lineage, position: .zero)
            try await other.uploadSnapshot(at: folder + "/down", seen: old, digest: Digest.sha256(down[...])) { _ in }
        }
        return failures
    }
}
