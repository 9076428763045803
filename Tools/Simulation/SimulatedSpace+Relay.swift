import AnnalsCore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import RelayLog

/// The relay's process, which may die and is started again on its data.
extension SimulatedSpace {
    var relay: LocalRelay { machine.relay }

    /// Checks whether the relay died while it processed a request. Then no replica gets an answer.
    ///
    /// It waits for the relay's scheduled work, so that this work ends at the same time in every run.
    func relayHasDied() async -> Bool {
        await relay.log.finishScheduled()
        guard !machine.isRunning else { return false }
        noteRelayDeath()
        return true
    }

    func noteRelayDeath() {
        guard !relayIsDown else { return }
        (relayIsDown, relayWasDown) = (true, true)
        trace.note("+\(time.now) the relay is dead")
        queue.add(.relayStarts, at: time.now + relayIsDownFor)
    }

    /// Starts the relay on the data of its last process. The data must include all acknowledged entries (laws 6 and 7).
    func startRelay() async throws {
        guard !machine.isRunning else { return }
        try await machine.start()
        relayIsDown = false
        trace.note("+\(time.now) the relay starts")
        try await checkKeptLog()
        try await absorbLog()
    }

    /// Every entry that was in the log is still there, byte by byte.
    private func checkKeptLog() async throws {
        let description = try await relay.describe()
        guard description.lineage == lineage else { throw Violation("relay's log", "it has another lineage after a crash") }
        let known = frames.filter { $0.lastPosition > description.horizon }
        guard description.head.rawValue >= oracle.head else {
            throw Violation("relay's log", "it ends at \(description.head) after a crash, and answers told of \(oracle.head)")
        }
        let mark = LogMark(lineage: description.lineage)
        let found = try await relay.pull(after: description.horizon, seen: mark, byteLimit: .max, wait: nil).frames
        for (frame, kept) in zip(known, found) where frame != kept {
            throw Violation("relay's log", "the entries from \(frame.firstPosition) on are others after a crash")
        }
        guard found.count >= known.count else { throw Violation("relay's log", "entries are gone after a crash") }
    }
}
