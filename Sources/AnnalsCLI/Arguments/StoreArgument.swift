import AnnalsCore
import AnnalsReplica
import AnnalsStore
import ArgumentParser
import Foundation

/// The store argument of most commands.
struct StoreArgument: ParsableArguments {
    @Argument(help: "A SQLite file.", completion: .file())
    var store: String

    /// Opens the file without changing it. Throws `AnnalsError`.
    func open() throws -> Store { try Stores.open(store) }
}

/// Opens stores with the configuration of this program.
enum Stores {
    static var configuration: Store.Configuration {
        var configuration = Store.Configuration()
        configuration.process = "annals"
        configuration.newSchemas = .asSpaceSays
        return configuration
    }

    static func open(_ path: String) throws -> Store {
        try Store(path: path, configuration: configuration)
    }
}
