import AnnalsSchema
import AnnalsStore
import AnnalsCore
import AnnalsSync
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

            --space asks the relay for a snapshot of the space, brings it to this store's position in a folder beside the store, and \
            compares all rows. Work that was not sent yet is left out.

            Examples:
              annals verify shop.db
              annals verify shop.db --space
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
    @Flag(help: "Compare the rows with those of the space, too.")
    var space = false
    @OptionGroup var credential: CredentialOptions
    @OptionGroup var trust: TrustOptions
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
        let compared = space ? try await compareWithSpace(store, console) : nil
        if !output.json { printFindings(report.findings, console) }
        var steps: [RepairStep] = []
        var remaining: [Finding]?
        // One finding may hide another, which appears only after the first is repaired.
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
            console.print(json(report.findings, steps, remaining, compared))
        } else if let remaining {
            console.print(remaining.isEmpty ? "repaired" : "repaired, but for this:")
            printFindings(remaining, console)
        }
        if let compared, !output.json { console.print(compared.line) }
        guard !(remaining ?? report.findings).isEmpty else {
            if compared?.isEqual == false { throw CheckFailed() }
            return
        }
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

    private func compareWithSpace(_ store: Store, _ console: Console) async throws -> SpaceCheck {
        try await Progress.during("comparing with the space", on: console) { [self] _ in
            var relays = RelayConnections()
            let transport = try await relays.open(for: store, credential: credential, credentialFile: nil, trust: trust)
            return SpaceCheck(try await SyncAgent(store: store, transport: transport).compare().0)
        }
    }

    private func json(_ findings: [Finding], _ steps: [RepairStep], _ remaining: [Finding]?, _ compared: SpaceCheck?) -> JSON {
        func list(_ findings: [Finding]) -> JSON {
            .array(
                findings.map { finding in
                    .object([
                        "code": .text(finding.code.rawValue), "table": .text(finding.table), "message": .text(finding.message),
                    ])
                })
        }
        var facts: JSON = .object([
            "store": .text(argument.store), "ok": .bool((remaining ?? findings).isEmpty && compared?.isEqual != false),
            "findings": list(findings),
        ])
        if let compared { facts = facts.adding(["space": compared.json]) }
        guard repair else { return facts }
        return facts.adding([
            "steps": .array(steps.map { .text($0.message) }), "remaining": remaining.map(list) ?? .null,
        ])
    }
}

/// The result of comparing a store's rows with those of its space, as text and as JSON.
private struct SpaceCheck {
    let line: String
    let json: JSON
    /// nil if the rows could not be compared.
    let isEqual: Bool?

    init(_ comparison: SpaceComparison) {
        func facts(_ isEqual: Bool?, _ snapshot: Position?, _ position: Position?, _ reason: String?) -> JSON {
            .object([
                "equal": isEqual.map { .bool($0) } ?? .null, "snapshot": snapshot.map { .integer($0.rawValue) } ?? .null,
                "position": position.map { .integer($0.rawValue) } ?? .null, "reason": .text(reason),
            ])
        }
        switch comparison {
        case .equal(let snapshot, let position):
            isEqual = true
            line = "space: the rows are those of the snapshot at position \(snapshot) with the log up to \(position)"
            json = facts(true, snapshot, position, nil)
        case .different(let snapshot, let position, let differences):
            isEqual = false
            let counts = Joining.describe(differences)
            line = PrintableText.of(
                "space: the rows differ from the snapshot at position \(snapshot) with the log up to \(position): \(counts). "
                    + "If other replicas differ from it as well, the snapshot is wrong: tell the relay's operator. "
                    + "If only this one does, clone the space anew")
            json = facts(false, snapshot, position, counts)
        case .unusable(let snapshot, let error):
            isEqual = false
            line = PrintableText.of(
                "space: the snapshot at position \(snapshot) cannot be used: \(error.message). Tell the relay's operator")
            json = facts(false, snapshot, nil, error.message)
        case .notNow:
            isEqual = nil
            line = "space: nothing to compare, since this store's rows are not the log's at one position. Run annals sync first"
            json = facts(nil, nil, nil, "this store's rows are not the log's at one position")
        }
    }
}
