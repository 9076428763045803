import AnnalsCore

/// One of the store's own tables holds what Annals never writes there.
struct StoreDamage: Error {
    var place: String

    init(_ place: String) {
        self.place = place
    }

    var message: String { "\(place) holds what Annals never writes there" }

    init(column: String) {
        self.init("the column \(column) of one of Annals' own tables")
    }
}
