import AnnalsSchema
import AnnalsStore
import AnnalsCore
import AnnalsSync
import ArgumentParser

struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Check a store for corruption and drift; exit status 1 if anything is found.",
        discussion: """
            Checks the file itself, constraints and foreign keys, the capture triggers, that history and rows agree, and that the \
            rows without the outbox are a state of the log. Nothing is changed.

            --repair prints what can be rebuilt, and rebuilds it: indexes, capture triggers, tables of history. It changes none of \
            your rows. If history and rows disagree, history starts again with the current rows. Correct rows that violate a \
            constraint yourself. If Annals' own tables are corrupt beyond repair, annals untrack removes them from the file and \
            keeps your rows.

            The signed statements of the space's members reveal a relay that shows replicas different logs, or leaves entries out. \
            --evidence writes both statements to a file, with their signatures, so that others can check them.

            --space gets a snapshot of the space from the relay, applies the log up to this store's position in a folder beside the \
            store, and compares all rows. Unsent work is left out.

            Examples:
              annals verify shop.db
              annals verify shop.db --space
              annals verify shop.db --evidence proof.json
              annals verify shop.db --repair --dry-run
            """)

    @OptionGroup var argument: StoreArgument
    @Flag(help: "Print what can be rebuilt, and rebuild it.")
    var repair = false
    @Flag(help: "With --repair: only print what would be done.")
    var dryRun = false
    @Option(
        help: ArgumentHelp(
            "Write the proof that the relay or an author lied to a new JSON file.", valueName: "file"))
    var evidence: String?
    @Flag(help: "Also compare the rows with those of the space.")
    var space = false
    @OptionGroup var credential: CredentialOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        if dryRun, !repair { throw ValidationError("--dry-run needs --repair.") }
    }

    func run() async throws {
        let console = output.console
        let store = try argument.open()
        if let evidence { try await Evidence.write(of: store, to: evidence, console) }
        let report = try await Progress.during("verifying", on: console) { [self] progress in
            let report: @Sendable (Int64, Int64) -> Void = { progress.report(done: $0, of: $1) }
            return repair
                ? try await store.repairPlan(progress: report)
                : RepairReport(findings: try await store.verify(progress: report), steps: [])
        }
        // The findings report tables that cannot be read.
        let nullKeys = (try? await store.rowsWithNullKey()) ?? []
        for rows in nullKeys where !output.json { console.note("annals: note: \(StatusPrint.line(rows))") }
        let compared = space ? try await compareWithSpace(store, console) : nil
        let hasHistory = (try? await store.hasHistory()) ?? true
        if !output.json { printFindings(report.findings, console, hasHistory: hasHistory) }
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
            console.print(json(report.findings, steps, remaining, compared).adding(["rowsWithNullKey": StatusPrint.nullKeys(nullKeys)]))
        } else if let remaining {
            console.print(remaining.isEmpty ? "repaired" : "repaired, except for:")
            printFindings(remaining, console)
        }
        if let compared, !output.json { console.print(compared.line) }
        guard !(remaining ?? report.findings).isEmpty else {
            if compared?.isEqual == false { throw CheckFailed() }
            return
        }
        if repair, plan.steps.isEmpty, plan.findings.contains(where: { [.history, .log].contains($0.code) }), !output.json {
            console.print(
                "this cannot be repaired. Run annals untrack, which removes Annals' tables and keeps your rows, then annals track")
        }
        throw CheckFailed()
    }

    private func printFindings(_ findings: [Finding], _ console: Console, hasHistory: Bool = true) {
        if findings.isEmpty {
            console.print("\(argument.store): no problems found\(hasHistory ? "" : ". It has no history: annals track starts it")")
        }
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
            line = "space: the rows equal the snapshot at position \(snapshot) with the log up to \(position)"
            json = facts(true, snapshot, position, nil)
        case .different(let snapshot, let position, let differences):
            isEqual = false
            let counts = Joining.describe(differences)
            line = PrintableText.of(
                "space: the rows differ from the snapshot at position \(snapshot) with the log up to \(position): \(counts). "
                    + "If other replicas differ from it as well, the snapshot is wrong: tell the relay's operator. "
                    + "If only this one does, clone the space again")
            json = facts(false, snapshot, position, counts)
        case .unusable(let snapshot, let error):
            isEqual = false
            line = PrintableText.of(
                "space: the snapshot at position \(snapshot) cannot be used: \(error.message). Tell the relay's operator")
            json = facts(false, snapshot, nil, error.message)
        case .notNow:
            isEqual = nil
            line = "space: the rows cannot be compared, because they do not match one position of the log. Run annals sync first"
            json = facts(nil, nil, nil, "this store's rows do not match one position of the log")
        }
    }
}
