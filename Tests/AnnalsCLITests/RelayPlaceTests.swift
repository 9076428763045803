import Relay
import Testing

@testable import AnnalsCLI

/// Where `annals relay copy` takes a relay's data from, and to.
@Suite struct RelayPlaceTests {
    private func isFolder(_ place: String) -> Bool {
        if case .directory(let path) = RelayCopyCommand.storage(place) { path == place } else { false }
    }

    @Test(arguments: ["relay-data", "/var/lib/annals", "./a=b", "backups/month=11/relay", "/a=b"])
    func `a path is a folder, also with an equals sign`(place: String) {
        #expect(isFolder(place))
    }

    @Test(arguments: ["postgres://annals@db/annals", "postgresql:///annals", "host=/run/postgresql dbname=annals", "dbname=annals"])
    func `an address is PostgreSQL's`(place: String) {
        #expect(!isFolder(place))
    }
}
