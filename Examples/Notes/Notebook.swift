import Annals

/// The notes of one file, and the commands that change them.
actor Notebook {
    nonisolated let store: Store
    /// The edits of the commands. The list shows them before they are saved.
    private nonisolated let context: EditContext
    /// Whether edits wait for `save` or `discard`. Otherwise each command is saved at once.
    private var isDraft = false

    /// Opens the file, and creates it if it does not exist.
    init(path: String) async throws {
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.migrator = Note.migrator
        configuration.tables = .tables([Note.databaseTableName])
        store = try Store(path: path, configuration: configuration)
        // If another machine changed the same note meanwhile, what was typed here is saved.
        context = try await store.editContext(author: Self.author, mergePolicy: .mergeByPropertyObjectTrump)
    }

    /// The author of this program's commits. `undo` takes back those of this machine.
    private static let author = "notes"

    /// Shows the notes, and shows them again after each edit here and each change by a program or a sync. Ends when the task is
    /// cancelled.
    nonisolated func follow(_ show: @Sendable ([Note]) async -> Void) async throws {
        for try await list in FetchedResults(Note.inOrder, in: context, sectionBy: { _ in 0 }) { await show(list.allItems) }
    }

    /// Runs a command.
    ///
    /// - Returns: a message for the user, if any.
    func perform(_ command: Command) async throws -> String? {
        switch command {
        case .draft:
            isDraft = true
            return "nothing is saved until save or discard"
        case .save:
            try await context.save()
            isDraft = false
            return nil
        case .discard:
            isDraft = false
            context.discard()
            return nil
        case .undo, .redo:
            guard !isDraft else { return "save or discard the draft first" }
            let outcome = try await command == .undo ? store.undo(by: Self.author) : store.redo(by: Self.author)
            return outcome == nil ? "there is nothing to \(command)" : nil
        case .add, .edit, .toggle, .remove, .join:
            // Known notes get the values that others wrote since. Edits stay.
            try await context.refresh()
            let message = try await change(command)
            if !isDraft { try await context.save() }
            return message
        }
    }

    /// Edits in a child context. If a number is wrong, the child is dropped, and the draft is as it was before the command.
    private func change(_ command: Command) async throws -> String? {
        let step = context.child()
        let notes = try await step.fetch(Note.inOrder.request)
        func note(_ number: Int) throws -> Note {
            guard notes.indices.contains(number - 1) else { throw NoNote(number: number) }
            return notes[number - 1]
        }
        do {
            switch command {
            case .add(let title): try step.insert(Note(title: title))
            case .edit(let number, let title): try step.edit(note(number)) { $0.title = title }
            case .toggle(let number): try step.edit(note(number)) { $0.isDone.toggle() }
            case .remove(let number): try step.delete(note(number))
            case .join(let number, let other):
                let first = try note(number)
                try step.delete(first)
                let second = try note(other)
                try step.edit(second) { $0.title = "\(first.title), \($0.title)" }
            case .draft, .save, .discard, .undo, .redo: break
            }
        } catch let error as NoNote {
            return "there is no note \(error.number)"
        }
        try await step.save()
        return nil
    }

    private struct NoNote: Error {
        var number: Int
    }
}

/// A command of the user. It names notes by their numbers in the list.
enum Command: Equatable, Sendable {
    case add(String)
    case edit(Int, String)
    case toggle(Int)
    case remove(Int)
    /// Puts the first note's title before the second one's, and removes the first.
    case join(Int, Int)
    case draft
    case save
    case discard
    case undo
    case redo

    init?(_ line: String) {
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        let rest = words.count > 1 ? words[1] : ""
        switch (words.first, Int(rest)) {
        case ("add", _) where !rest.isEmpty: self = .add(rest)
        case ("done", let number?): self = .toggle(number)
        case ("remove", let number?): self = .remove(number)
        case ("draft", nil) where rest.isEmpty: self = .draft
        case ("save", nil) where rest.isEmpty: self = .save
        case ("discard", nil) where rest.isEmpty: self = .discard
        case ("undo", nil) where rest.isEmpty: self = .undo
        case ("redo", nil) where rest.isEmpty: self = .redo
        case ("edit", nil):
            let parts = rest.split(separator: " ", maxSplits: 1).map(String.init)
            guard parts.count == 2, let number = Int(parts[0]) else { return nil }
            self = .edit(number, parts[1])
        case ("join", nil):
            let numbers = rest.split(separator: " ").compactMap { Int($0) }
            guard numbers.count == 2, numbers[0] != numbers[1] else { return nil }
            self = .join(numbers[0], numbers[1])
        default: return nil
        }
    }
}
