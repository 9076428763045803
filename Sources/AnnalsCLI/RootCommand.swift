import AnnalsCore
import ArgumentParser

/// `annals`: one binary for stores, their history, sync and the relay.
struct RootCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "annals",
        abstract: "A history for any SQLite file, and the same rows on many machines.",
        discussion: """
            Try `annals demo` first: it shows the whole story on sample data in a temporary folder.

            Exit status: 0 done, 1 a check failed, 64 usage, 65 the data is not what it must be, 66 no such file or space, \
            69 relay unreachable, 70 a defect of annals, 73 cannot create or write the output, 75 try again, \
            76 the relay shows different logs or leaves entries out, 77 not permitted, 78 configuration, 130 and 143 stopped by a signal (Ctrl-C, SIGTERM) before the work was done. A relay, a \
            watch or a watching sync that is stopped has done its work: 0. A signal ends a command within two seconds, a second \
            one at once; a relay finishes what it is answering, for the time that its settings give (shutdown-seconds).

            `annals --generate-completion-script` prints completions for your shell.
            """,
        version: ProgramVersion.text,
        groupedSubcommands: [
            CommandGroup(name: "To begin", subcommands: [DemoCommand.self]),
            CommandGroup(
                name: "One store",
                subcommands: [
                    TrackCommand.self, UntrackCommand.self, StatusCommand.self, MigrateCommand.self, DigestCommand.self,
                    VerifyCommand.self,
                ]),
            CommandGroup(
                name: "Its history",
                subcommands: [
                    HistoryCommand.self, ShowCommand.self, WatchCommand.self, DiffCommand.self, BlameCommand.self, RevertCommand.self,
                    ReplayCommand.self, ConsumersCommand.self, PurgeCommand.self,
                ]),
            CommandGroup(
                name: "Other machines",
                subcommands: [
                    JoinCommand.self, CloneCommand.self, SyncCommand.self, ConflictsCommand.self, ResolveCommand.self, PolicyCommand.self,
                    LeaveCommand.self,
                ]),
            CommandGroup(name: "The relay", subcommands: [RelayCommand.self]),
            CommandGroup(name: "Spaces that no relay can read", subcommands: [KeyCommand.self]),
        ]
    )
}
