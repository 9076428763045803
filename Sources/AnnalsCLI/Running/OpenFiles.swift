import AnnalsCore
import Relay

/// Files and connections that stores take while they are synced: where the system gives none any more, SQLite cannot open a file, and
/// parts of the system's own libraries end the process.
enum OpenFiles {
    /// Of one store: two connections with their write-ahead logs and the index of those, reports of the file system, the relay, and a file on
    /// its way.
    static let ofStore = 8
    /// Of the process.
    static let ofProcess = 64

    /// Raises the system's limit as far as it allows, and looks whether that is enough, before anything is begun.
    ///
    /// - Parameter allowed: how many files the process may open.
    /// - Throws: `AnnalsError` of code configuration.
    static func require(stores: Int, allowed: Int = FileLimit.raise()) throws {
        let needed = stores * ofStore + ofProcess
        guard needed > allowed else { return }
        throw AnnalsError(
            .configuration, operation: "sync",
            "\(stores) stores need \(needed) open files, and the system allows this process \(allowed)",
            hint: "Raise the limit (LimitNOFILE= in a systemd unit, ulimit -Hn in a shell), or name fewer stores; nothing was done")
    }
}
