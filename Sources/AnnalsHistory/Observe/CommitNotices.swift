/// A source of notices about commits to a store: `CommitWatcher` for files, `HistoryCommits` for stores in memory.
///
/// A notice may also follow a commit of the listener itself. The listener then finds nothing new and waits again.
package protocol CommitNotices: Sendable {
    /// Returns after a commit since the last return.
    func next() async throws
}

extension CommitWatcher: CommitNotices {}
extension HistoryCommits: CommitNotices {}
