import Foundation
package import GRDB

extension GRDB.Row {
    /// The value of a column of Annals' own tables or of SQLite's schema.
    ///
    /// GRDB's subscripts end the process if a value has another type. Any program may write to a store, and a snapshot
    /// comes from another machine. So all values are read by this method.
    ///
    ///     let author: String? = try row.value("author")
    ///
    /// Throws `Corruption`.
    package func value<Value: DatabaseValueConvertible>(_ column: String) throws -> Value {
        do {
            return try decode(Value.self, forColumn: column)
        } catch {
            throw Corruption(column: column)
        }
    }

    /// A number that Annals counts. Throws `Corruption`.
    package func number<Number: FixedWidthInteger & DatabaseValueConvertible>(
        _ column: String, in range: ClosedRange<Int64> = CountedNumbers.range
    ) throws -> Number {
        let number: Number = try value(column)
        guard range.contains(Int64(clamping: number)) else { throw Corruption(column: column) }
        return number
    }

    /// Decodes the JSON in a column. Throws `Corruption`.
    package func json<Value: Decodable>(_ column: String) throws -> Value {
        let data: Data = try value(column)
        do {
            return try JSONDecoder().decode(Value.self, from: data)
        } catch {
            throw Corruption(column: column)
        }
    }
}

extension Statement {
    /// A number that Annals counts. NULL is zero. Throws `Corruption`.
    package func number(at column: Int) throws -> Int64 { try CountedNumbers.checked(integer(at: column)) }
}

extension PreparedStatement {
    /// A number that Annals counts. NULL is zero. Throws `Corruption`.
    package func number(_ column: Int) throws -> Int64 { try CountedNumbers.checked(integer(column)) }
}

/// The valid numbers of transactions, of raw changes, and of everything else that Annals counts from 1. The limit is so
/// low that arithmetic cannot overflow.
package enum CountedNumbers {
    package static let range: ClosedRange<Int64> = 0...1 << 53

    fileprivate static func checked(_ number: Int64) throws -> Int64 {
        guard range.contains(number) else { throw Corruption("a number in one of Annals' own tables") }
        return number
    }
}
