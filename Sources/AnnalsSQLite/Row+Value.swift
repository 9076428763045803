import Foundation
package import GRDB

extension GRDB.Row {
    /// What a column of Annals' own tables, or of SQLite's schema, holds.
    ///
    /// GRDB's subscripts end the process where a value is of another type. Any program may write into a store, and a snapshot comes
    /// from another machine: so everything is read by this.
    ///
    ///     let author: String? = try row.value("author")
    ///
    /// Throws `StoreDamage`.
    package func value<Value: DatabaseValueConvertible>(_ column: String) throws -> Value {
        do {
            return try decode(Value.self, forColumn: column)
        } catch {
            throw StoreDamage(column: column)
        }
    }

    /// A number that Annals counts itself. Throws `StoreDamage`.
    package func number<Number: FixedWidthInteger & DatabaseValueConvertible>(
        _ column: String, in range: ClosedRange<Int64> = CountedNumbers.range
    ) throws -> Number {
        let number: Number = try value(column)
        guard range.contains(Int64(clamping: number)) else { throw StoreDamage(column: column) }
        return number
    }

    /// What a column holds as JSON. Throws `StoreDamage`.
    package func json<Value: Decodable>(_ column: String) throws -> Value {
        let data: Data = try value(column)
        do {
            return try JSONDecoder().decode(Value.self, from: data)
        } catch {
            throw StoreDamage(column: column)
        }
    }
}

extension Statement {
    /// A number that Annals counts itself; zero for NULL. Throws `StoreDamage`.
    package func number(at column: Int) throws -> Int64 { try CountedNumbers.checked(integer(at: column)) }
}

extension PreparedStatement {
    /// A number that Annals counts itself; zero for NULL. Throws `StoreDamage`.
    package func number(_ column: Int) throws -> Int64 { try CountedNumbers.checked(integer(column)) }
}

/// What can be the number of a transaction, of a raw change, or of anything else that Annals counts from 1: far from where
/// arithmetic ends.
package enum CountedNumbers {
    package static let range: ClosedRange<Int64> = 0...1 << 53

    fileprivate static func checked(_ number: Int64) throws -> Int64 {
        guard range.contains(number) else { throw StoreDamage("a number of one of Annals' own tables") }
        return number
    }
}
