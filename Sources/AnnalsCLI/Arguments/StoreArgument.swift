import AnnalsCore
import AnnalsReplica
import AnnalsSQLite
import AnnalsStore
import ArgumentParser
import Foundation

/// The store argument of most commands.
struct StoreArgument: ParsableArguments {
    @Argument(help: "A SQLite file.", completion: .file())
    var store: String
    @OptionGroup var extensions: ExtensionOptions

    /// How the file is opened, and other files of its space.
    var configuration: Store.Configuration { extensions.configuration }

    /// Opens the file without changing it. Throws `AnnalsError`.
    func open() throws -> Store { try Stores.open(store, configuration) }
}

/// Extensions of SQLite with the functions and collations that tables use.
struct ExtensionOptions: ParsableArguments {
    @Option(
        name: .customLong("load-extension"),
        help: ArgumentHelp(
            "An extension of SQLite with functions or collations that tables use. Can be repeated. It runs as a part of annals.",
            valueName: "file"), completion: .file())
    var files: [String] = []

    var configuration: Store.Configuration { Stores.configured(extensions: files) }
}

/// Opens stores with the configuration of this program.
enum Stores {
    static var configuration: Store.Configuration {
        var configuration = Store.Configuration()
        configuration.process = "annals"
        configuration.newSchemas = .asSpaceSays
        return configuration
    }

    /// - Parameter extensions: files with extensions of SQLite.
    static func configured(extensions: [String]) -> Store.Configuration {
        var own = Self.configuration
        own.extensions = extensions
        return own
    }

    static func open(_ path: String, _ configuration: Store.Configuration = Stores.configuration) throws -> Store {
        try Store(path: DatabaseFile.plain(path), configuration: configuration)
    }
}
