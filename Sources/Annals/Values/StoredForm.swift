public import Foundation
import GRDB

extension Date {
    /// The date as it is after it was stored and fetched: to the millisecond, the precision of the stored text.
    ///
    /// A new date has a fraction of a millisecond, so a new record differs from the same record once fetched. An app that
    /// compares the two converts its dates with this property.
    public var asStored: Date { Date.fromDatabaseValue(databaseValue) ?? self }
}
