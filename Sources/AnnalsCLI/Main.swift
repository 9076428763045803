import AnnalsSQLite
import AnnalsStore
import ArgumentParser
import CAnnalsMemory
import Foundation

/// Runs one command: parses it, runs it in a task that signals cancel, prints an error and ends with the exit status.
@main
enum Main {
    static func main() async {
        // A closed output is detected where it is written to.
        signal(SIGPIPE, SIG_IGN)
        SQLiteProcess.countNoMemory()
        SQLiteProcess.makeStoppable()
        // The memory of large bodies is returned to the system. Otherwise a million changes let a relay's memory grow by half.
        annals_give_back_blocks(512 << 10)
        let status = await run(Array(CommandLine.arguments.dropFirst()))
        let streams = StandardStreams.shared
        streams.flush()
        // The findings of a check are of no use either if they could not be written.
        guard [.done, .checkFailed].contains(status), let failure = streams.failure else { end(status) }
        streams.writeError(ErrorReport.line("the output cannot be written: \(failure)", hint: nil) + "\n")
        end(.cannotCreate)
    }

    /// Ends at once, without the exit handlers of libraries. A thread of libcurl may still be closing a connection and needs
    /// OpenSSL.
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
            // The parser returns help, the version and completion scripts as errors.
            streams.write(RootCommand.fullMessage(for: error) + "\n")
            return .done
        } catch {
            // A command that a signal stopped may end with any error.
            if let status = interruption?.status { return status }
            if arguments.contains("--json"), let refusal = JSON.refusal(error) {
                streams.write(JSON.object(["error": refusal]).description + "\n")
            }
            let report = ErrorReport(error, root: RootCommand.self)
            if let line = report.line { streams.writeError(line + "\n") }
            return report.status
        }
    }

    /// Parses again, because a command cannot be passed to another task.
    private static func runCommand(_ arguments: [String]) async throws {
        var command = try RootCommand.parseAsRoot(arguments)
        if var asynchronous = command as? any AsyncParsableCommand {
            try await asynchronous.run()
        } else {
            try command.run()
        }
    }
}
