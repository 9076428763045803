import ArgumentParser

struct RelayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay",
        abstract: "Run a relay, and look after its tokens and spaces.",
        subcommands: [RelayServeCommand.self, RelayTokenCommand.self, RelaySpacesCommand.self])
}
