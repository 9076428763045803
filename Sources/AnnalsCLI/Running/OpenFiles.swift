import AnnalsCore
import Relay

/// Files and connections that stores use while they are synced. At the system's limit, SQLite cannot open files, and parts of the
/// system's libraries end the process.
enum OpenFiles {
    /// For one store in WAL mode: three connections (for writing, reading and watching) with the file and its WAL each, the WAL
    /// index, the connection to the relay, and two files during a transfer.
    static let ofStore = 10
    /// For the process itself.
    static let ofProcess = 64

    /// Raises the system's limit as far as possible, and checks that it is high enough before any store is synced.
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
