import Foundation
import GRDB

/// Functions and collations of a program: every connection of the world has them, as with an extension that all programs load. In some
/// worlds the schema uses them instead of SQLite's own, in columns, keys, indexes and triggers.
enum ProgramFunctions {
    /// Percent of worlds.
    private static let share = 8
    private static let collation = "program_nocase"
    private static let function = "program_value"

    /// - Returns: whether the schema is to use them. A merge compares keys under a program's collation by their bytes, so it does not see
    ///   that a reference in another spelling names the same parent: see the limit in schemas.md.
    static func mayUse(_ seed: UInt64, _ features: Features, _ schema: Schema) -> Bool {
        var dice = Dice(seed: seed, 25)
        guard features.programFunctions, dice.chance(share), schema.statements.map(used) != schema.statements else { return false }
        return !schema.tables.contains { $0.references.contains { $0.collations.contains(.noCase) } }
    }

    /// A statement of the schema with the program's collation instead of NOCASE, which compares the same, and with the program's function in
    /// the triggers.
    static func used(in statement: String) -> String {
        statement.replacing("COLLATE NOCASE", with: "COLLATE \(collation)")
            .replacing(/, NEW\.(\w+)\);/) { ", \(function)(NEW.\($0.1)));" }
    }

    static func add(to db: Database) {
        db.add(
            collation: DatabaseCollation(collation) { left, right in
                let (left, right) = (folded(left), folded(right))
                return left == right ? .orderedSame : left.lexicographicallyPrecedes(right) ? .orderedAscending : .orderedDescending
            })
        db.add(function: DatabaseFunction(function, argumentCount: 1, pure: true) { $0[0] })
    }

    private static func folded(_ text: String) -> [UInt8] { text.utf8.map { (65...90).contains($0) ? $0 + 32 : $0 } }
}
