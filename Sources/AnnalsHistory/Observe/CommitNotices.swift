/// Who tells that something was committed to a store: `CommitWatcher` of files, `HistoryCommits` of stores in memory.
///
/// Commits of whoever is told may be told of as well: it then looks, finds nothing new and waits again.
package protocol CommitNotices: Sendable {
    /// Returns when something was committed since the last return.
    func next() async throws
}

extension CommitWatcher: CommitNotices {}
extension HistoryCommits: CommitNotices {}
