import AnnalsCore
import AnnalsReplica
import AnnalsStore
import ArgumentParser
import Foundation

/// The source of a space's keys. They are never printed, logged or stored.
struct SpaceKeyOptions: ParsableArguments {
    @Option(
        name: .customLong("space-key-file"),
        help: "A file with the key of an encrypted space, as annals key new creates it; the relay cannot read such a space.",
        completion: .file())
    var file: String?

    /// The file as an absolute path, because the store remembers it.
    var absoluteFile: String? { file.map { URL(fileURLWithPath: $0).path } }

    /// nil if no file is named. Throws `AnnalsError` with `.missingKey`.
    func keys() throws -> SpaceKeyRing? {
        try absoluteFile.map { try SpaceKeyFile.read($0) }
    }

    /// The name of this replica for the relay; empty for an encrypted space, because its relay must not know names.
    func name(_ name: String) -> String { file == nil ? name : "" }
}
