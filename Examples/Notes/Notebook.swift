import Annals

/// The notes of one file, and the commands that change them.
struct Notebook: Sendable {
    let store: Store

    /// Opens the file, and creates it if it does not exist.
    init(path: String) throws {
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.migrator = Note.migrator
        configuration.tables = .tables([Note.databaseTableName])
        store = try Store(path: path, configuration: configuration)
    }

    /// Shows the notes, and shows them again after each change by a program or a sync. Ends when the task is cancelled.
    func follow(_ show: @Sendable ([Note]) async -> Void) async throws {
        for try await list in FetchedResults(Note.inOrder, in: store, sectionBy: { _ in 0 }) { await show(list.allItems) }
    }

    /// Runs a command.
    ///
    /// - Returns: a message for the user, if any.
    func perform(_ command: Command) async throws -> String? {
        switch command {
        case .undo: return try await store.undo(by: Self.author) == nil ? "there is nothing to undo" : nil
        case .redo: return try await store.redo(by: Self.author) == nil ? "there is nothing to redo" : nil
        case .add, .edit, .toggle, .remove: return try await change(command)
        }
    }

    /// The author of this program's commits. `undo` takes back those of this machine.
    private static let author = "notes"

    private func change(_ command: Command) async throws -> String? {
        try await store.write(author: Self.author) { db in
            switch command {
            case .add(let title):
                try Note(title: title).insert(db)
            case .edit(let number, let title):
                guard var note = try Self.note(number, db) else { return "there is no note \(number)" }
                try note.updateChanges(db) { $0.title = title }
            case .toggle(let number):
                guard var note = try Self.note(number, db) else { return "there is no note \(number)" }
                try note.updateChanges(db) { $0.isDone.toggle() }
            case .remove(let number):
                guard let note = try Self.note(number, db) else { return "there is no note \(number)" }
                try note.delete(db)
            case .undo, .redo: break
            }
            return nil
        }
    }

    private static func note(_ number: Int, _ db: Database) throws -> Note? {
        guard number > 0 else { return nil }
        return try Note.inOrder.limit(1, offset: number - 1).fetchOne(db)
    }
}

/// A command that changes notes. It names them by their numbers in the list.
enum Command: Sendable {
    case add(String)
    case edit(Int, String)
    case toggle(Int)
    case remove(Int)
    case undo
    case redo

    init?(_ line: String) {
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        let rest = words.count > 1 ? words[1] : ""
        switch (words.first, Int(rest)) {
        case ("add", _) where !rest.isEmpty: self = .add(rest)
        case ("done", let number?): self = .toggle(number)
        case ("remove", let number?): self = .remove(number)
        case ("undo", nil) where rest.isEmpty: self = .undo
        case ("redo", nil) where rest.isEmpty: self = .redo
        case ("edit", nil):
            let parts = rest.split(separator: " ", maxSplits: 1).map(String.init)
            guard parts.count == 2, let number = Int(parts[0]) else { return nil }
            self = .edit(number, parts[1])
        default: return nil
        }
    }
}
