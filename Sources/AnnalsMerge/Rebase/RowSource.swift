package import AnnalsCore

/// The rows of the store as the planner reads them. Between `RebasePlanner.plan()` and the next writes it must give the
/// same rows for the same question.
package protocol RowSource: AnyObject {
    func table(named name: String) throws -> MergeTable

    /// The table with this name in the log.
    func table(canonicalName name: String) throws -> MergeTable

    /// Whether the rows of other replicas have columns of this table that the store lacks.
    func lacksColumns(of table: MergeTable) -> Bool

    /// The row with a primary key. The values compare as the key's columns do.
    func row(withKey key: [Value], in table: MergeTable) throws -> [Value]?

    /// The row with a candidate key. The values compare as the key's index does.
    func row(named name: CandidateKey, in table: MergeTable) throws -> [Value]?

    /// The value that the column holds if this value is written to it.
    func asStored(_ value: Value, in table: MergeTable, columnIndex: Int) throws -> Value

    /// The default of a column, as the column stores it. NULL if it has none.
    func defaultValue(of columnIndex: Int, in table: MergeTable) throws -> Value
}
