import AnnalsStore
import ArgumentParser

struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Look for everything that can be off in a store; exit status 1 if something is.",
        discussion: """
            Checks the file itself, constraints and foreign keys, the triggers that capture changes, that history and rows \
            agree, and that the rows without the outbox are a state of the log. Nothing is changed.

            Example:
              annals verify shop.db
            """)

    @OptionGroup var argument: StoreArgument
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        let findings = try await Progress.during("verifying", on: console) { _ in try await store.verify() }
        if output.json {
            console.print(
                .object([
                    "store": .text(argument.store), "ok": .bool(findings.isEmpty),
                    "findings": .array(
                        findings.map { finding in
                            .object([
                                "code": .text(finding.code.rawValue), "table": .text(finding.table), "message": .text(finding.message),
                            ])
                        }),
                ]))
        } else if findings.isEmpty {
            console.print("\(argument.store): all is well")
        } else {
            for finding in findings {
                console.print("\(console.style(.red, finding.code.rawValue)): \(PrintableText.of(finding.message))")
            }
        }
        if !findings.isEmpty { throw CheckFailed() }
    }
}
