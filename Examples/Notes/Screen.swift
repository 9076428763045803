import Annals
import Foundation

/// The list and a line about the relay. On a terminal it is redrawn in place; otherwise each change is printed.
actor Screen {
    private let isTerminal = isatty(STDOUT_FILENO) == 1
    private var notes: [Note] = []
    private var status = "on this machine only"
    private var answer = ""

    func show(_ notes: [Note]) {
        guard notes != self.notes || notes.isEmpty else { return }
        self.notes = notes
        if isTerminal { draw() } else { print(list) }
    }

    func show(_ event: SyncEvent) {
        let status = Self.words(event) ?? status
        guard status != self.status else { return }
        self.status = status
        if isTerminal { draw() } else { print("relay: \(status)") }
    }

    func tell(_ answer: String?) {
        self.answer = answer ?? ""
        if isTerminal { draw() } else if let answer { print(answer) }
    }

    private static func words(_ event: SyncEvent) -> String? {
        if let error = event.error { return error.isRetryable ? "away, trying again" : error.description }
        if event.isCaughtUp { return "up to date" }
        if let remaining = event.remaining, remaining > 0 { return "\(event.stage.rawValue): \(remaining) to go" }
        return nil
    }

    private var list: String {
        let lines = notes.enumerated().map { "  \($0 + 1) [\($1.isDone ? "x" : " ")] \($1.title)" }
        return (["notes: \(notes.count)"] + lines).joined(separator: "\n")
    }

    /// Redraws the whole screen. The terminal itself shows the characters that are being typed.
    private func draw() {
        print("\u{1B}[2J\u{1B}[H\(list)\n\nrelay: \(status)\n\(Notes.commands)\n\(answer)\n> ", terminator: "")
        fflush(nil)
    }

    private func print(_ text: String, terminator: String = "\n") {
        FileHandle.standardOutput.write(Data((text + terminator).utf8))
    }
}
