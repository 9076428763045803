import AnnalsCore
import AnnalsReplica
import AnnalsStore
import ArgumentParser
import Foundation

/// Where a command takes a space's keys from. They are never printed, logged or stored.
struct SpaceKeyOptions: ParsableArguments {
    @Option(
        name: .customLong("space-key-file"),
        help: "A file that holds the space's key, as annals key new makes it: the relay then keeps nothing that it can read.",
        completion: .file())
    var file: String?

    /// The file as an absolute path, since the store remembers it.
    var absoluteFile: String? { file.map { URL(fileURLWithPath: $0).path } }

    /// nil where no file is named. Throws `AnnalsError` with `.missingKey`.
    func keys() throws -> SpaceKeyRing? {
        try absoluteFile.map { try SpaceKeyFile.read($0) }
    }

    /// What a relay is told of who asks: names are not for the relay of a sealed space.
    func name(_ name: String) -> String { file == nil ? name : "" }
}
