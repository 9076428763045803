import Foundation
public import GRDB

/// A property of a record that is a struct and is stored in several columns: `address` with `street` and `city` as
/// `address_street` and `address_city`.
///
///     struct Customer: Codable, FetchableRecord, PersistableRecord, CompositeRecord {
///         var id: UUID
///         var address: Address?
///         static let address = Composite("address", ["street": .text, "city": .text])
///         static var composites: [Composite] { [address] }
///     }
///
///     try db.create(table: "customer") { t in
///         t.primaryKey("id", .blob)
///         t.composite(Customer.address)
///     }
///
///     let inBerlin = Customer.query.and(Customer.address["city"] == "Berlin")
///
/// The columns have these names even if the record has a column naming strategy. The strategy applies to the other properties
/// only.
///
/// The columns can be indexed and queried like all others, and they are merged one by one. If two people edit street and city at
/// the same time, both edits are kept. With JSON in one column, one edit would be lost.
public struct Composite: Hashable, Sendable {
    struct Part: Hashable, Sendable {
        var name: String
        var type: Database.ColumnType
    }

    /// The property's name.
    public let name: String
    let parts: [Part]

    /// - Parameters:
    ///   - name: the property's name, as its coding key spells it.
    ///   - columns: the properties of the struct, each with the type of its column.
    public init(_ name: String, _ columns: KeyValuePairs<String, Database.ColumnType>) {
        self.name = name
        parts = columns.map { Part(name: $0.key, type: $0.value) }
    }

    /// The names of the columns, for example for an index.
    public var columnNames: [String] { parts.map { prefix + $0.name } }

    /// The column of one of the struct's properties. A query with a property that the struct does not have throws `AnnalsError` with code
    /// `usage`, and names the column.
    public subscript(part: String) -> Column { Column(prefix + part) }

    var prefix: String { name + "_" }
}

extension GRDB.TableDefinition {
    /// Adds the columns of a composite. They accept NULL: if the property is nil, all of them are NULL.
    public func composite(_ composite: Composite) {
        for (name, part) in zip(composite.columnNames, composite.parts) { column(name, part.type) }
    }
}

extension TableAlteration {
    /// Adds the columns of a composite to an existing table.
    public func addComposite(_ composite: Composite) {
        for (name, part) in zip(composite.columnNames, composite.parts) { add(column: name, part.type) }
    }
}

/// A Codable record with composites among its properties; see `Composite`. GRDB codes the other properties as usual.
public protocol CompositeRecord: FetchableRecord, EncodableRecord, Codable {
    static var composites: [Composite] { get }
}

extension CompositeRecord {
    public init(row: Row) throws {
        try Self.checkComposites(in: row)
        let base = try FetchableRecordDecoder().decode(LocalNames<Self>.self, from: row).coding
        let columns = try FetchableRecordDecoder().decode(ColumnNames<Self>.self, from: row).coding
        guard case .reading(let base) = base, case .reading(let columns) = columns else {
            preconditionFailure("decoding a row must pass a decoder")
        }
        try self.init(from: FlatteningDecoder(base: base, columns: columns, composites: Self.compositesByName))
    }

    public func encode(to container: inout PersistenceContainer) throws {
        let apart = CompositeValues()
        try LocalNames<Self>(
            .writing { encoder in
                try encode(to: FlatteningEncoder(base: encoder, apart: apart, composites: Self.compositesByName))
            }
        ).encode(to: &container)
        try ColumnNames<Self>(.writing(apart.encode(to:))).encode(to: &container)
    }

    private static var compositesByName: [String: Composite] {
        Dictionary(composites.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// With a column naming strategy, the table's columns for a composite may have other names as well. Then the composite would
    /// be read as nil, and changes of it would be lost.
    private static func checkComposites(in row: Row) throws {
        if case .useDefaultKeys = databaseColumnDecodingStrategy { return }
        for composite in composites where !composite.parts.isEmpty && !composite.columnNames.contains(where: row.hasColumn) {
            throw DecodingError.keyNotFound(
                ColumnKey(composite.columnNames[0]),
                DecodingError.Context(
                    codingPath: [],
                    debugDescription: """
                        the row has no column of the composite \(composite.name) of \(Self.self); the columns must be named \
                        \(composite.columnNames.joined(separator: ", ")), because the record's column strategy does not apply to \
                        them
                        """))
        }
    }
}

/// GRDB's coder of a row, passed on so that two coders can code one record.
private enum RowCoding {
    case reading(any Decoder)
    case writing((any Encoder) throws -> Void)
}

/// A wrapper that GRDB codes with the record's strategies, except for column names.
private protocol CodedAsRecord: FetchableRecord, EncodableRecord, Codable {
    associatedtype Record: CompositeRecord
    var coding: RowCoding { get }
    init(_ coding: RowCoding)
}

extension CodedAsRecord {
    init(from decoder: any Decoder) throws {
        self.init(.reading(decoder))
    }

    func encode(to encoder: any Encoder) throws {
        guard case .writing(let write) = coding else { return }
        try write(encoder)
    }

    static var databaseDecodingUserInfo: [CodingUserInfoKey: Any] { Record.databaseDecodingUserInfo }
    static func databaseJSONDecoder(for column: String) -> JSONDecoder { Record.databaseJSONDecoder(for: column) }
    static func databaseDataDecodingStrategy(for column: String) -> DatabaseDataDecodingStrategy {
        Record.databaseDataDecodingStrategy(for: column)
    }
    static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy {
        Record.databaseDateDecodingStrategy(for: column)
    }
    static var databaseEncodingUserInfo: [CodingUserInfoKey: Any] { Record.databaseEncodingUserInfo }
    static func databaseJSONEncoder(for column: String) -> JSONEncoder { Record.databaseJSONEncoder(for: column) }
    static func databaseDataEncodingStrategy(for column: String) -> DatabaseDataEncodingStrategy {
        Record.databaseDataEncodingStrategy(for: column)
    }
    static func databaseDateEncodingStrategy(for column: String) -> DatabaseDateEncodingStrategy {
        Record.databaseDateEncodingStrategy(for: column)
    }
    static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy {
        Record.databaseUUIDEncodingStrategy(for: column)
    }
}

/// Uses the record's strategies for column names.
private struct LocalNames<Record: CompositeRecord>: CodedAsRecord {
    let coding: RowCoding

    init(_ coding: RowCoding) {
        self.coding = coding
    }

    static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy { Record.databaseColumnDecodingStrategy }
    static var databaseColumnEncodingStrategy: DatabaseColumnEncodingStrategy { Record.databaseColumnEncodingStrategy }
}

/// Uses the column names of `Composite.columnNames`.
private struct ColumnNames<Record: CompositeRecord>: CodedAsRecord {
    let coding: RowCoding

    init(_ coding: RowCoding) {
        self.coding = coding
    }
}
