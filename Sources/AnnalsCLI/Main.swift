import AnnalsSQLite
import AnnalsStore
import ArgumentParser
import CAnnalsMemory
import Foundation

/// Runs one command: parses, runs it as a task that signals cancel, prints why it failed and ends with its status.
@main
enum Main {
    static func main() async {
        // A reader that goes away is noticed where it is written to.
        signal(SIGPIPE, SIG_IGN)
        SQLiteProcess.countNoMemory()
        SQLiteProcess.makeStoppable()
        // What large bodies took is not kept for the next: a million changes let a relay grow by half as much.
        annals_give_back_blocks(512 << 10)
        let status = await run(Array(CommandLine.arguments.dropFirst()))
        let streams = StandardStreams.shared
        streams.flush()
        // What was found is of no use either where it could not be written.
        guard [.done, .checkFailed].contains(status), let failure = streams.failure else { end(status) }
        streams.writeError(ErrorReport.line("the output cannot be written: \(failure)", hint: nil) + "\n")
        end(.cannotCreate)
    }

    /// At once, without what libraries do at a program's end: a connection that a thread of libcurl's is closing meanwhile would
    /// find OpenSSL gone.
    private static func end(_ status: ExitStatus) -> Never {
        _exit(status.rawValue)
    }

    private static func run(_ arguments: [String]) async -> ExitStatus {
        let streams = StandardStreams.shared
        var interruption: Interruption?
        do {
            let command = try RootCommand.parseAsRoot(arguments)
            if !(command is any HandlesSignals) {
                interruption = Interruption(isWorkDone: (command as? any GoesOnUntilStopped)?.goesOnUntilStopped ?? false)
            }
            let task = Task { try await runCommand(arguments) }
            interruption?.watch(task)
            try await task.value
            return .done
        } catch  where RootCommand.exitCode(for: error) == .success {
            // Help, the version and completion scripts come as errors from the parser.
            streams.write(RootCommand.fullMessage(for: error) + "\n")
            return .done
        } catch {
            // A command that was stopped may end with any error.
            if let status = interruption?.status { return status }
            if arguments.contains("--json"), let refusal = JSON.refusal(error) {
                streams.write(JSON.object(["error": refusal]).description + "\n")
            }
            let report = ErrorReport(error, root: RootCommand.self)
            if let line = report.line { streams.writeError(line + "\n") }
            return report.status
        }
    }

    /// Parses anew, since a command cannot be handed to another task.
    private static func runCommand(_ arguments: [String]) async throws {
        var command = try RootCommand.parseAsRoot(arguments)
        if var asynchronous = command as? any AsyncParsableCommand {
            try await asynchronous.run()
        } else {
            try command.run()
        }
    }
}
