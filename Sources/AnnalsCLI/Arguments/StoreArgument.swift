import AnnalsCore
import AnnalsReplica
import AnnalsStore
import ArgumentParser
import Foundation

/// The store that most commands are about.
struct StoreArgument: ParsableArguments {
    @Argument(help: "A SQLite file.", completion: .file())
    var store: String

    /// Opens the file as it is. Throws `AnnalsError`.
    func open() throws -> Store { try Stores.open(store) }
}

/// Opens stores as this program.
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
