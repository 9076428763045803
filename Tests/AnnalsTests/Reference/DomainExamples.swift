import Annals
import Testing

private struct Age: Hashable {
    struct Impossible: Error {}
    let years: Int

    init(_ years: Int) throws {
        guard (0..<150).contains(years) else { throw Impossible() }
        self.years = years
    }
}

private struct Person: Hashable {
    var id: Int64 = 1
    var name: String
    var age: Age
}

private struct PersonRecord: Codable, ActiveRecord {
    static let databaseTableName = "person"
    var id: Int64
    var name: String
    var years: Int
}

extension PersonRecord: DomainConvertible {
    func domain() throws -> Person { Person(name: name, age: try Age(years)) }
}

extension Person: EntityConvertible {
    func entity(updating stored: PersonRecord?) throws -> PersonRecord {
        var record = stored ?? PersonRecord(id: id, name: name, years: age.years)
        (record.name, record.years) = (name, age.years)
        return record
    }
}

extension Query where Record == PersonRecord {
    fileprivate static let adults = all.and(Column("years") >= 18)
}

/// The examples in the documentation of mapping records to an app's own types, unchanged.
@Suite("The reference's examples: domain types")
struct DomainExamples {
    @Test("an app's own types are read and written")
    func mapping() async throws {
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, years INTEGER)") }
        try await store.track(.all)
        let person = Person(name: "Ada", age: try Age(36))
        try await store.save(person)
        let people: [Person] = try await store.fetchDomain(.adults)
        #expect(people == [person])
    }
}
