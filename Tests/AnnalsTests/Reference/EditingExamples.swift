import Annals
import Testing

/// The examples in the documentation of `EditContext` and the merge policies, unchanged.
@Suite("The reference's examples: editing")
struct EditingExamples {
    @Test("a context's edits are saved together")
    func context() async throws {
        let shop = try await Shop()
        let store = shop.store
        try await edit(store)
        #expect(try await shop.isPaid(17) == true)
        #expect(try await store.read { db in try Payment.fetchCount(db) } == 1)
    }

    private func edit(_ store: Store) async throws {
        let context = try await store.editContext(author: "till 3")
        guard let invoice = try await context.fetchOne(Invoice.filter(key: 17)) else { return }
        try context.edit(invoice) { $0.isPaid = true }
        try context.insert(Payment(invoiceID: 17, amount: 120))
        try await context.save()
    }

    @Test("edits are saved without a context")
    func edits() async throws {
        let shop = try await Shop()
        let store = shop.store
        let invoice = try #require(try await store.read { db in try Invoice.fetchOne(db, key: 17) })
        var changed = invoice
        changed.isPaid = true
        let paid = changed
        try await store.write(author: "till 3", mergePolicy: .mergeByPropertyObjectTrump) { edits in
            try edits.update(paid, from: invoice)
            try edits.insert(Payment(invoiceID: invoice.id, amount: 120))
        }
        #expect(try await shop.isPaid(17) == true)
        try await store.write { db in try db.execute(sql: "DELETE FROM payment") }
        do {
            let invoice = paid
            try await store.write(author: "till 3", mergePolicy: .mergeByPropertyStoreTrump) { edits in
                let customer = try edits.insert(Customer(id: nil, name: "Ada"))
                try edits.insert(Invoice(id: 18, customerID: customer.id, isPaid: false))
                try edits.delete(invoice)
            }
        }
        #expect(try await shop.isPaid(17) == nil)
        #expect(try await store.read { db in try Int64.fetchOne(db, sql: "SELECT customerID FROM invoice WHERE id = 18") } == 8)
        let unpaid = try #require(try await store.read { db in try Invoice.fetchOne(db, key: 16) })
        try await store.write(mergePolicy: .error) { edits in
            let invoice = unpaid
            try edits.update(invoice, from: invoice)
            let paid = try edits.edit(invoice) { $0.isPaid = true }
            #expect(paid.isPaid)
        }
        #expect(try await shop.isPaid(16) == true)
    }

    @Test("a resolver decides with the rows before it")
    func resolver() async throws {
        struct KeepLonger: MergePolicyResolver {
            func resolve(optimisticLockingConflicts list: inout [MergeConflict], in db: Database) {
                for index in list.indices {
                    let (mine, theirs) = (list[index].mine?["text"] ?? .null, list[index].theirs?["text"] ?? .null)
                    let isLonger = (String.fromDatabaseValue(mine) ?? "").count > (String.fromDatabaseValue(theirs) ?? "").count
                    list[index].resolution = isLonger ? .keepObject : .keepStore
                }
            }
        }
        struct Note: Codable, FetchableRecord, PersistableRecord {
            var id: Int64
            var text: String
        }
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO note VALUES (1, 'a'), (2, 'b')")
        }
        try await store.track(.all)
        let context = try await store.editContext()
        for note in try await context.fetch(Note.all()) { try context.edit(note) { $0.text += "a few more words" } }
        try await store.write { db in
            try db.execute(
                sql: "UPDATE note SET text = 'short' WHERE id = 1; UPDATE note SET text = 'what others wrote is longer' WHERE id = 2")
        }
        try await context.save(mergePolicy: .custom(KeepLonger()))
        let texts = try await store.read { db in try String.fetchAll(db, sql: "SELECT text FROM note ORDER BY id") }
        #expect(texts == ["aa few more words", "what others wrote is longer"])
    }

    @Test("a conflict shows both rows, and an error says what was refused")
    func errors() async throws {
        struct Product: Codable, FetchableRecord, PersistableRecord {
            var id: Int64
            var stock: Int
        }
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(sql: "CREATE TABLE product (id INTEGER PRIMARY KEY, stock INTEGER); INSERT INTO product VALUES (1, 5)")
        }
        try await store.track(.all)
        let context = try await store.editContext()
        for product in try await context.fetch(Product.all()) { try context.edit(product) { $0.stock -= 1 } }
        try await store.write { db in try db.execute(sql: "UPDATE product SET stock = 3") }

        var shown: [MergeConflict] = []
        func show(_ conflicts: [MergeConflict]) { shown = conflicts }
        func complain(_ columns: [String]) {}
        func mark(_ row: PersistentIdentifier, _ reason: any Error) {}
        func tryAgain() {}
        do {
            try await context.save()
        } catch let error as AnnalsError {
            switch error.saveError {
            case .conflicts(let conflicts): show(conflicts)  // others were first
            case .constraints(let refused): complain(refused[0].columns)  // a value is taken, missing or wrong
            case .validation(let row, let reason): mark(row, reason)  // what the record's own code threw
            case .busy: tryAgain()
            case nil: throw error
            }
        }
        let conflict = try #require(shown.first)
        let stock = conflict.theirs?["stock"]
        let product = try conflict.theirs?.decode(Product.self)
        #expect(stock == 3.databaseValue && product?.stock == 3)
    }
}
