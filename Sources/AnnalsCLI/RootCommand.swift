import AnnalsCore
import ArgumentParser

/// `annals`: one binary for stores, their history, sync and the relay.
struct RootCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "annals",
        abstract: "Record the history of any SQLite file, and sync its rows between machines.",
        discussion: """
            Start with `annals demo`: it shows tracking, sync, conflicts and history on sample data in a temporary folder.

            Exit status: 0 done, 1 a check failed, 64 usage, 65 the data is invalid or was refused, 66 no such file or space, 69 \
            relay unreachable, 70 a bug in annals, 73 cannot create or write the output, 75 try again, 76 the relay shows different \
            logs or leaves entries out, 77 not permitted, 78 configuration, 130 and 143 stopped by a signal (Ctrl-C, SIGTERM) before \
            the work was done. annals relay serve, annals watch and annals sync --watch end with 0 when they are stopped. A signal \
            ends a command within two seconds, a second signal at once. A relay first finishes the requests that it is answering, \
            for at most the time in its settings (shutdown-seconds).

            `annals --generate-completion-script` prints completions for your shell.
            """,
        version: ProgramVersion.text,
        groupedSubcommands: [
            CommandGroup(name: "Getting started", subcommands: [DemoCommand.self]),
            CommandGroup(
                name: "Stores",
                subcommands: [
                    TrackCommand.self, UntrackCommand.self, StatusCommand.self, MigrateCommand.self, DigestCommand.self,
                    VerifyCommand.self,
                ]),
            CommandGroup(
                name: "History",
                subcommands: [
                    HistoryCommand.self, ShowCommand.self, WatchCommand.self, DiffCommand.self, BlameCommand.self, RevertCommand.self,
                    RestoreCommand.self, ReplayCommand.self, ConsumersCommand.self, PurgeCommand.self,
                ]),
            CommandGroup(
                name: "Sync",
                subcommands: [
                    JoinCommand.self, CloneCommand.self, SyncCommand.self, ConflictsCommand.self, ResolveCommand.self, PolicyCommand.self,
                    ReferenceCommand.self, LeaveCommand.self,
                ]),
            CommandGroup(name: "Relay", subcommands: [RelayCommand.self]),
            CommandGroup(name: "Encryption", subcommands: [KeyCommand.self]),
        ]
    )
}
