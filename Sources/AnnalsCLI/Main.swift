import ArgumentParser
import Foundation

/// Runs one command: parses, runs it as a task that signals cancel, prints why it failed and ends with its status.
@main
enum Main {
    static func main() async {
        let status = await run(Array(CommandLine.arguments.dropFirst()))
        StandardStreams.shared.flush()
        exit(status.rawValue)
    }

    private static func run(_ arguments: [String]) async -> ExitStatus {
        let streams = StandardStreams.shared
        let interruption = Interruption()
        do {
            let command = try RootCommand.parseAsRoot(arguments)
            let task = Task {
                var command = command
                if var asynchronous = command as? any AsyncParsableCommand {
                    try await asynchronous.run()
                } else {
                    try command.run()
                }
            }
            interruption.watch(task)
            try await task.value
            return .done
        } catch where RootCommand.exitCode(for: error) == .success {
            // Help, the version and completion scripts come as errors from the parser.
            streams.write(RootCommand.fullMessage(for: error) + "\n")
            return .done
        } catch {
            let report = ErrorReport(error, root: RootCommand.self)
            if let line = report.line { streams.writeError(line + "\n") }
            return report.status == .interrupted ? interruption.status ?? .interrupted : report.status
        }
    }
}
