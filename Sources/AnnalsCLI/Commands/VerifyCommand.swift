import AnnalsStore
import ArgumentParser

struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Look for everything that can be off in a store; exit status 1 if something is.",
        discussion: """
            Checks the file itself, constraints and foreign keys, the triggers that capture changes, that history and rows \
            agree, and that the rows without the outbox are a state of the log. Nothing is changed.

            --repair rebuilds what can be rebuilt, after saying what: indexes, the triggers that capture changes, tables of \
            history. It touches no row of yours: where history and rows disagree, history begins anew with the rows as they \
            are. Rows that break a constraint are yours to mend. Where Annals' own tables are damaged beyond repair, annals \
            untrack takes them out of the file and leaves its rows.

            A relay that shows replicas different logs, or leaves entries out, is found out by what the members of the space sign. \
            --evidence writes both statements to a file, with their signatures, so that anybody can check them.

            Examples:
              annals verify shop.db
              annals verify shop.db --evidence proof.json
              annals verify shop.db --repair --dry-run
            """)

    @OptionGroup var argument: StoreArgument
    @Flag(help: "Rebuild what can be rebuilt, after saying what.")
    var repair = false
    @Flag(help: "With --repair: only say what would be done.")
    var dryRun = false
    @Option(
        help: ArgumentHelp(
            "Write what proves that the relay or an author lied to a new file, as JSON.", valueName: "file"))
    var evidence: String?
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if dryRun, !repair { throw ValidationError("--dry-run goes with --repair.") }
    }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        if let evidence { try await Evidence.write(of: store, to: evidence, console) }
        let report = try await Progress.during("verifying", on: console) { [self] _ in
            repair ? try await store.repairPlan() : RepairReport(findings: try await store.verify(), steps: [])
        }
        if !output.json { printFindings(report.findings, console) }
        var steps: [RepairStep] = []
        var remaining: [Finding]?
        // One thing that is off may hide another, which is seen once the first is mended.
        var plan = report
        repeat {
            if !output.json { for step in plan.steps { console.print("to repair: \(PrintableText.of(step.message))") } }
            steps += plan.steps
            guard repair, !dryRun, !plan.steps.isEmpty else { break }
            let left = try await Progress.during("repairing", on: console) { [plan] _ in try await store.repair(plan).remaining } ?? []
            remaining = left
            guard !left.isEmpty else { break }
            plan = try await store.repairPlan()
        } while !Set(plan.steps).isSubset(of: steps)
        if output.json {
            console.print(json(report.findings, steps, remaining))
        } else if let remaining {
            console.print(remaining.isEmpty ? "repaired" : "repaired, but for this:")
            printFindings(remaining, console)
        }
        guard !(remaining ?? report.findings).isEmpty else { return }
        if repair, plan.steps.isEmpty, plan.findings.contains(where: { [.history, .log].contains($0.code) }), !output.json {
            console.print("that cannot be repaired. annals untrack takes Annals out of the file and leaves its rows: then track it anew")
        }
        throw CheckFailed()
    }

    private func printFindings(_ findings: [Finding], _ console: Console) {
        if findings.isEmpty { console.print("\(argument.store): all is well") }
        for finding in findings {
            console.print("\(console.style(.red, finding.code.rawValue)): \(PrintableText.of(finding.message))")
        }
    }

    private func json(_ findings: [Finding], _ steps: [RepairStep], _ remaining: [Finding]?) -> JSON {
        func list(_ findings: [Finding]) -> JSON {
            .array(
                findings.map { finding in
                    .object([
                        "code": .text(finding.code.rawValue), "table": .text(finding.table), "message": .text(finding.message),
                    ])
                })
        }
        let facts: JSON = .object([
            "store": .text(argument.store), "ok": .bool((remaining ?? findings).isEmpty), "findings": list(findings),
        ])
        guard repair else { return facts }
        return facts.adding([
            "steps": .array(steps.map { .text($0.message) }), "remaining": remaining.map(list) ?? .null,
        ])
    }
}
