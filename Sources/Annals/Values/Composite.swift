import Foundation
public import GRDB

/// A property of a record that is a struct, stored as columns of their own: `address` with `street` and `city` as
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
/// Its columns can be indexed and queried like any others, and they are merged one by one: two people who edit street and city
/// at the same time both keep what they wrote. As JSON in one column one of them would lose.
public struct Composite: Hashable, Sendable {
    struct Part: Hashable, Sendable {
        var name: String
        var type: Database.ColumnType
    }

    /// The property's name.
    public let name: String
    let parts: [Part]

    /// - Parameters:
    ///   - name: the property's, as its coding key spells it.
    ///   - columns: the struct's own properties, each with its column's type.
    public init(_ name: String, _ columns: KeyValuePairs<String, Database.ColumnType>) {
        precondition(!columns.isEmpty, "a composite has columns")
        self.name = name
        parts = columns.map { Part(name: $0.key, type: $0.value) }
    }

    /// The columns' names, as for an index.
    public var columnNames: [String] { parts.map { prefix + $0.name } }

    /// The column of one of its properties.
    public subscript(part: String) -> Column {
        precondition(parts.contains { $0.name == part }, "the composite \(name) has no \(part)")
        return Column(prefix + part)
    }

    var prefix: String { name + "_" }
}

extension GRDB.TableDefinition {
    /// The columns of a composite. They may be NULL: all of them are where there is none.
    public func composite(_ composite: Composite) {
        for (name, part) in zip(composite.columnNames, composite.parts) { column(name, part.type) }
    }
}

extension TableAlteration {
    /// Adds the columns of a composite to a table that exists.
    public func addComposite(_ composite: Composite) {
        for (name, part) in zip(composite.columnNames, composite.parts) { add(column: name, part.type) }
    }
}

/// A Codable record with composites among its properties; see `Composite`. What GRDB makes of the other properties stays as it
/// is.
public protocol CompositeRecord: FetchableRecord, EncodableRecord, Codable {
    static var composites: [Composite] { get }
}

extension CompositeRecord {
    public init(row: Row) throws {
        self = try FetchableRecordDecoder().decode(Flattened<Self>.self, from: row).record
    }

    public func encode(to container: inout PersistenceContainer) throws {
        try Flattened(record: self).encode(to: &container)
    }

    fileprivate static var compositesByName: [String: Composite] {
        Dictionary(composites.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    }
}

/// A record as GRDB's own coding sees it, with composites flattened.
private struct Flattened<Record: CompositeRecord>: Codable, FetchableRecord, EncodableRecord {
    let record: Record

    init(record: Record) {
        self.record = record
    }

    init(from decoder: any Decoder) throws {
        record = try Record(from: FlatteningDecoder(base: decoder, composites: Record.compositesByName))
    }

    func encode(to encoder: any Encoder) throws {
        try record.encode(to: FlatteningEncoder(base: encoder, composites: Record.compositesByName))
    }

    static var databaseDecodingUserInfo: [CodingUserInfoKey: Any] { Record.databaseDecodingUserInfo }
    static func databaseJSONDecoder(for column: String) -> JSONDecoder { Record.databaseJSONDecoder(for: column) }
    static func databaseDataDecodingStrategy(for column: String) -> DatabaseDataDecodingStrategy {
        Record.databaseDataDecodingStrategy(for: column)
    }
    static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy {
        Record.databaseDateDecodingStrategy(for: column)
    }
    static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy { Record.databaseColumnDecodingStrategy }
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
    static var databaseColumnEncodingStrategy: DatabaseColumnEncodingStrategy { Record.databaseColumnEncodingStrategy }
}
