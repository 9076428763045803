import AnnalsCore

/// Corruption: one of the store's own tables contains a value that Annals never writes.
package struct Corruption: Error {
    package var place: String

    package init(_ place: String) {
        self.place = place
    }

    package var message: String { "\(place) contains a value that Annals never writes there" }

    package init(column: String) {
        self.init("the column \(column) in one of Annals' own tables")
    }
}
