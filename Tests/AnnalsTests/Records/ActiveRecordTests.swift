import Annals
import Foundation
import Testing

struct Author: Codable, Identifiable, Hashable, ActiveRecord {
    var id: UUID
    var name: String
    var email: String?
}

struct Book: Codable, Identifiable, Hashable, ActiveRecord {
    var id: Int64?
    var title: String
    var authorId: UUID?

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

enum Library {
    static func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.create(table: "author") { t in
                t.primaryKey("id", .blob)
                t.column("name", .text).notNull().check { length($0) > 0 }
                t.column("email", .text).unique()
            }
            try db.create(table: "book") { t in
                t.autoIncrementedPrimaryKey("id")
                t.column("title", .text).notNull()
                t.belongsTo("author", deleteRule: .deny)
            }
        }
        try await store.track(.all)
        return store
    }
}

@Suite("An active record")
struct ActiveRecordTests {
    @Test("can be written and fetched in a closure, and on the default store")
    func pairs() async throws {
        let store = try await Library.store()
        let ada = Author(id: UUID(), name: "Ada")
        try await store.write(author: "pair") { db in
            try ada.insert(in: db)
            var other = ada
            other.name = "Ada L."
            try other.update(in: db)
            try other.save(in: db)
            #expect(try Author.fetch(id: ada.id, in: db) == other)
            #expect(try Author.fetch(in: db) == [other])
            #expect(try Author.count(in: db) == 1)
            #expect(try other.delete(in: db) && !other.delete(in: db))
        }
        try await Store.withDefault(store) {
            try await ada.insert(author: "by itself")
            var other = ada
            other.email = "ada@example.org"
            try await other.update()
            #expect(try await Author.fetch(id: ada.id) == other)
            #expect(try await Author.fetch(Author.query.and(Column("name") == "Ada")) == [other])
            #expect(try await Author.count() == 1)
            let book = try await Book(title: "Notes").save()
            #expect(book.id == 1)
            #expect(try await other.delete())
            #expect(try await !other.delete())
        }
        let authors = try await store.read { db in
            try HistoryReader(db).transactions(HistoryRequest().authors("by itself")).count
        }
        #expect(authors == 1)
    }

    @Test("is refused with a typed error, in a closure and on the default store")
    func refusals() async throws {
        let store = try await Library.store()
        let ada = Author(id: UUID(), name: "Ada", email: "a@b")
        let stranger = UUID()
        try await Store.withDefault(store) {
            try await ada.insert()
            func refusal(_ body: @Sendable () async throws -> Void) async -> (code: AnnalsError.Code?, constraint: ConstraintConflict?) {
                let error = await #expect(throws: AnnalsError.self) { try await body() }
                guard case .constraints(let refused)? = error?.saveError else { return (error?.code, nil) }
                return (error?.code, refused.first)
            }
            let same = await refusal { try await Author(id: ada.id, name: "Bob").insert() }
            #expect(same.code == .constraint && same.constraint?.kind == .unique && same.constraint?.columns == ["id"])
            let email = await refusal { try await store.write { db in _ = try Author(id: UUID(), name: "Bob", email: "a@b").save(in: db) } }
            #expect(email.constraint?.table == "author" && email.constraint?.columns == ["email"])
            #expect(await refusal { try await Author(id: stranger, name: "Bob").update() }.code == .rowNotFound)
            #expect(await refusal { _ = try await Author.fetch(id: stranger) }.code == .rowNotFound)
            let check = await refusal { try await Author(id: UUID(), name: "").insert() }
            #expect(check.constraint?.kind == .check)
            // A deferred reference is refused at commit.
            let orphan = await refusal { try await Book(title: "x", authorId: stranger).insert() }
            #expect(orphan.code == .constraint && orphan.constraint?.kind == .foreignKey)
            let null = await refusal { try await store.apply(Patch<Author>().setting("name", to: nil as String?), to: ada.id) }
            #expect(null.constraint?.kind == .notNull && null.constraint?.columns == ["name"])
            #expect(await refusal { try await store.apply(Patch<Author>().setting("name", to: "x"), to: stranger) }.code == .rowNotFound)
        }
        #expect(try await store.fetch(Author.query) == [ada])
    }

    @Test("fails without a default store")
    func noDefault() async throws {
        let error = await #expect(throws: AnnalsError.self) { try await Author(id: UUID(), name: "Ada").insert() }
        #expect(error?.code == .configuration)
    }
}

@Suite("A patch")
struct PatchTests {
    private func updatedColumns(_ store: Store, author: String) async throws -> [String] {
        try await store.read { db in
            let reader = try HistoryReader(db)
            return try reader.transactions(HistoryRequest().authors(author)).flatMap { try reader.changes(in: $0) }
                .flatMap { $0.columns.map(\.name) }
        }
    }

    @Test("writes only the columns that it sets, and history contains only these")
    func partial() async throws {
        let store = try await Library.store()
        let ada = Author(id: UUID(), name: "Ada", email: "a@b")
        try await store.write { db in try ada.insert(in: db) }
        // Another writer changes a column after the record was read.
        try await store.write { db in try db.execute(sql: "UPDATE author SET email = 'new@b'") }
        try await store.apply(Patch<Author>().setting("name", to: "Ada L."), to: ada.id, author: "patch")
        #expect(try await store.fetch(Author.query) == [Author(id: ada.id, name: "Ada L.", email: "new@b")])
        #expect(try await updatedColumns(store, author: "patch") == ["name"])

        try await store.apply(Patch<Author>().setting("email", to: nil as String?), to: ada.id)
        #expect(try await store.first(Author.query)?.email == nil)
        // An empty patch makes no transaction.
        let before = try await store.latestToken()
        try await store.apply(Patch<Author>(), to: ada.id)
        #expect(try await store.latestToken() == before)
    }

    @Test("is refused if the row or the column does not exist")
    func refused() async throws {
        let store = try await Library.store()
        let gone = await #expect(throws: AnnalsError.self) {
            try await store.apply(Patch<Author>().setting("name", to: "x"), to: UUID())
        }
        #expect(gone?.code == .rowNotFound)
        let unknown = await #expect(throws: AnnalsError.self) {
            try await store.apply(Patch<Author>().setting("nam", to: "x"), to: UUID())
        }
        #expect(unknown?.description == "the table author has no column nam. Its columns are id, name, email")
    }

    @Test("sets the columns that differ between two values of an app's types")
    func domain() async throws {
        let store = try await Library.store()
        let person = Contact(id: UUID(), fullName: "Ada", contact: "a@b")
        try await store.save(person, Contact(id: UUID(), fullName: "Bob", contact: nil))
        #expect(try await store.fetchDomain(Author.query.ascending("name")).map(\.fullName) == ["Ada", "Bob"])
        try await store.write { db in try db.execute(sql: "UPDATE author SET email = 'new@b' WHERE name = 'Ada'") }
        var renamed = person
        renamed.fullName = "Ada L."
        try await store.update(from: person, to: renamed, author: "domain")
        let now = try await store.fetchDomain(Author.query.ascending("name")).first
        #expect(now == Contact(id: person.id, fullName: "Ada L.", contact: "new@b"))
        #expect(try await updatedColumns(store, author: "domain") == ["name"])
        // The error of domain() is passed on if a record is not a valid value.
        try await store.write { db in try db.execute(sql: "UPDATE author SET name = ' ' WHERE name = 'Bob'") }
        await #expect(throws: Contact.Nameless.self) { _ = try await store.fetchDomain(Author.query) }
    }
}

/// An app's type without any code for tables.
struct Contact: Hashable, Sendable {
    struct Nameless: Error {}
    var id: UUID
    var fullName: String
    var contact: String?
}

extension Author: DomainConvertible {
    func domain() throws -> Contact {
        guard name != " " else { throw Contact.Nameless() }
        return Contact(id: id, fullName: name, contact: email)
    }
}

extension Contact: EntityConvertible {
    func entity(updating stored: Author?) -> Author {
        var author = stored ?? Author(id: id, name: fullName, email: contact)
        (author.name, author.email) = (fullName, contact)
        return author
    }
}
