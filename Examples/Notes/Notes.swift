import Annals
import Foundation
import Logging

/// Notes in a terminal, synced with those on other machines.
@main
struct Notes {
    static let commands = """
        add TITLE   done N   edit N TITLE   join N N   remove N   draft   save   discard   undo   redo   pause   resume   quit
        """

    static func main() async {
        // Log lines of the agent would overwrite the list. The list shows the agent's events anyway.
        LoggingSystem.bootstrap { _ in SwiftLogNoOpLogHandler() }
        do {
            try await run(Options(CommandLine.arguments.dropFirst()))
        } catch let error as AnnalsError where error.code == .usage {
            FileHandle.standardError.write(Data("notes: \(error)\n".utf8))
            exit(64)
        } catch {
            FileHandle.standardError.write(Data("notes: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func run(_ options: Options) async throws {
        let notebook = try await Notebook(path: options.file)
        let screen = Screen()
        guard let address = try options.address() else { return try await serve(notebook, nil, screen) }
        // On joining, notes with the same key are the same note, and all others are kept.
        let agent = try SyncAgent(store: notebook.store, joining: address, existing: .sameKey)
        try await serve(notebook, agent, screen)
        do {
            try await agent.sync()
        } catch let error as AnnalsError where error.isRetryable {
            await screen.tell("what is not sent yet is sent next time: \(error.message)")
        }
    }

    /// Shows the list, syncs continuously and runs typed commands. Ends when the input ends or one of these tasks fails.
    private static func serve(_ notebook: Notebook, _ agent: SyncAgent?, _ screen: Screen) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await notebook.follow { await screen.show($0) } }
            group.addTask { try await obey(notebook, agent, screen) }
            if let agent {
                let events = agent.events
                group.addTask { for await event in events { await screen.show(event) } }
                group.addTask { try await agent.run() }
            }
            try await group.next()
        }
    }

    private static func obey(_ notebook: Notebook, _ agent: SyncAgent?, _ screen: Screen) async throws {
        for await line in Input.lines() {
            switch line {
            case "quit": return
            case "pause": agent?.pause()
            case "resume": agent?.resume()
            case "": break
            default:
                guard let command = Command(line) else {
                    await screen.tell(commands)
                    continue
                }
                do {
                    await screen.tell(try await notebook.perform(command))
                } catch let error as AnnalsError where error.isRetryable {
                    await screen.tell("not done: \(error.message)")
                }
            }
        }
    }
}

/// The arguments of the command line.
struct Options {
    static let usage = "annals-notes FILE [--relay URL] [--space NAME] [--name NAME]"

    var file: String
    private var named = ["--space": "notes", "--name": ProcessInfo.processInfo.hostName]

    init(_ arguments: ArraySlice<String>) throws {
        var rest = arguments
        guard let file = rest.popFirst(), !file.hasPrefix("-") else { throw Self.misuse }
        self.file = file
        while let option = rest.popFirst() {
            guard ["--relay", "--space", "--name"].contains(option), let value = rest.popFirst() else { throw Self.misuse }
            named[option] = value
        }
    }

    /// nil if no relay is given.
    func address() throws -> SpaceAddress? {
        guard let relay = named["--relay"] else { return nil }
        return try SpaceAddress(
            named["--space"] ?? "", at: relay, as: named["--name"] ?? "",
            credential: ProcessInfo.processInfo.environment["ANNALS_CREDENTIAL"])
    }

    private static var misuse: AnnalsError { AnnalsError(.usage, "usage: \(usage)") }
}

/// The lines of standard input.
enum Input {
    /// `readLine` blocks, so it runs on a thread of its own.
    static func lines() -> AsyncStream<String> {
        let (stream, continuation) = AsyncStream<String>.makeStream()
        Thread.detachNewThread {
            while let line = readLine() { continuation.yield(line.trimmingCharacters(in: .whitespaces)) }
            continuation.finish()
        }
        return stream
    }
}
