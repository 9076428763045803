import ArgumentParser

struct RelayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay",
        abstract: "Run a relay, and manage its access tokens, spaces and replicas.",
        subcommands: [
            RelayServeCommand.self, RelayTokenCommand.self, RelaySpacesCommand.self, RelayReplicasCommand.self, RelayRetireCommand.self,
            RelayReleaseCommand.self, RelayPurgeCommand.self, RelayVoidCommand.self, RelayAuditCommand.self, RelayBackupCommand.self,
            RelayRestoreCommand.self, RelayCopyCommand.self, RelayDeleteCommand.self, RelayQuarantineCommand.self,
        ])
}
