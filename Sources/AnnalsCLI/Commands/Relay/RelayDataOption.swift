import AnnalsCore
import ArgumentParser
import Foundation
import RelayLog

/// The folder that a relay keeps its log, snapshots and tokens in.
struct RelayDataOption: ParsableArguments {
    @Option(help: "The relay's folder.", completion: .directory)
    var data: String

    /// Opens what is there, and makes nothing. Throws `AnnalsError` with `.fileNotFound`.
    func openExisting() throws -> RelayDatabase {
        guard FileManager.default.fileExists(atPath: data + "/relay.db") else {
            throw AnnalsError(
                .fileNotFound, "\(data) is not a relay's folder",
                hint: "Name the folder that annals relay serve has as --data, which it makes")
        }
        return try RelayDatabase(directory: data)
    }
}
