import AnnalsCore
import AnnalsStore
import AnnalsWire

extension SyncAgent {
    /// Notes in the store what ended an exchange, so that `status` can say it. A cancelled exchange changes nothing.
    func noteProblem(_ error: any Error) async {
        guard !Task.isCancelled, let error = error as? AnnalsError ?? (error as? TransportError)?.annalsError else { return }
        mayHaveProblem = true
        await store.note(syncProblem: error)
    }

    /// Removes the note after a successful exchange.
    func noteSuccess() async {
        guard mayHaveProblem else { return }
        mayHaveProblem = await !store.note(syncProblem: nil)
    }
}
