import AnnalsCore
import Relay

/// Files and connections that stores take while they are synced: where the system gives none any more, SQLite cannot open a file, and
/// parts of the system's own libraries end the process.
enum OpenFiles {
    /// Of one store in WAL mode: a connection that writes, one that reads and one that watches, each with the file and its log; the log's
    /// index, the relay, and a file on its way with the one that it is made into.
    static let ofStore = 10
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
