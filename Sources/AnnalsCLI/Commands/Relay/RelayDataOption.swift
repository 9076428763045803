import AnnalsCore
import ArgumentParser
import Foundation
import Relay
import RelayLog

/// The storage of a relay's log, snapshots and tokens.
struct RelayDataOption: ParsableArguments {
    @Option(help: "The relay's folder.", completion: .directory)
    var data: String?
    @Option(
        help: """
            The address of a PostgreSQL database instead of a folder: a URL or name=value pairs. Any number of relays can use it. \
            Put a password in ~/.pgpass or PGPASSFILE.
            """)
    var postgres: String?

    func validate() throws {
        guard (data == nil) != (postgres == nil) else {
            throw ValidationError("Give the relay's storage: either --data DIR or --postgres URL.")
        }
    }

    var storage: RelayConfiguration.Storage {
        postgres.map { .postgres($0) } ?? .directory(data ?? "")
    }

    /// Opens an existing storage; a missing folder is not created. Throws `AnnalsError` with `.fileNotFound`.
    func openExisting() throws -> RelayDatabase { try Self.openExisting(storage) }

    /// Opens an existing storage by its location.
    static func openExisting(_ storage: RelayConfiguration.Storage) throws -> RelayDatabase {
        if case .directory(let data) = storage, !FileManager.default.fileExists(atPath: data + "/relay.db") {
            throw AnnalsError(
                .fileNotFound, "\(data) is not a relay's folder",
                hint: "Give the folder that annals relay serve uses as --data; serve creates it")
        }
        return try storage.open()
    }
}
