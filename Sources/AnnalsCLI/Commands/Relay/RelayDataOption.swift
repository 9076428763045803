import AnnalsCore
import ArgumentParser
import Foundation
import Relay
import RelayLog

/// Options for the storage of a relay's log, snapshots and tokens.
struct RelayStorageOptions: ParsableArguments {
    @Option(help: "The relay's folder.", completion: .directory)
    var data: String?
    @Option(
        help: """
            The address of a PostgreSQL database instead of a folder: a URL or name=value pairs. Any number of relays can use it. \
            Put a password in ~/.pgpass or PGPASSFILE.
            """)
    var postgres: String?

    static let missing = ValidationError("Give the relay's storage: either --data DIR or --postgres URL.")

    func validate() throws {
        guard data == nil || postgres == nil else { throw Self.missing }
    }
}

/// The storage of a relay that exists already.
struct RelayDataOption: ParsableArguments {
    @OptionGroup var options: RelayStorageOptions

    func validate() throws {
        guard options.data != nil || options.postgres != nil else { throw RelayStorageOptions.missing }
    }

    var storage: RelayConfiguration.Storage {
        options.postgres.map { .postgres($0) } ?? .directory(options.data ?? "")
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
