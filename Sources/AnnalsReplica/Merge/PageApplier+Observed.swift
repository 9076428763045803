import AnnalsCore
import AnnalsMerge

extension PageApplier {
    /// Notes what a transaction of another replica shows besides its rows. The relay's own entries are not given: the relay writes no
    /// rows, so its times do not move the clock, and it has no name.
    mutating func observe(_ info: TransactionInfo, _ writer: WriteMark) throws {
        clock.observe(writer.time)
        if let named, named == (writer.replica, info.replicaName) { return }
        try ReplicaNames.note(info, of: writer.replica, db)
        named = (writer.replica, info.replicaName)
    }
}
