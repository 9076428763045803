public import Foundation
import GRDB

extension Date {
    /// The date as it is after it was stored and fetched: to the millisecond, which is what its text form keeps.
    ///
    /// A record that was just made has the clock's fraction of a millisecond still, and so differs from itself once it is
    /// fetched. An app that compares the two makes its dates by this.
    public var asStored: Date { Date.fromDatabaseValue(databaseValue) ?? self }
}
