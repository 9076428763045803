import AnnalsCore
import ArgumentParser
import Logging
import RelayLog

struct RelayVoidCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "void",
        abstract: "Void entries that no replica can apply, so that the space can continue without them.",
        discussion: """
            A replica that cannot decrypt or apply an entry stops before it, and so does every other replica that still needs it. A \
            voided entry counts as if it had never been written: a replica that does not have it skips it, and its author sends its \
            changes as a new transaction with the next sync. Other entries of the same batch, and other parts of the same \
            transaction, are voided with it. The relay permanently records in the log what was voided.

            The void is refused if a live replica other than the author has acknowledged the entry, by pulling what follows it. If \
            another owner has reported the entry, replicas of the author's owner do not count. Retire a replica that is gone; \
            quarantine an owner that must not hold back the void. The void is also refused if later work may depend on the entry: \
            work of its author, of another replica of the author's owner, or of a retired replica that had acknowledged it. \
            --with-later voids that work too.

            One call can void several entries: positions and ranges, all entries of one author from a position on, or all that \
            replicas reported. The newest entry is voided first. If one is refused, the others are still voided.

            Examples:
              annals relay void 1200 --data relay-data --space shop
              annals relay void 1200 --data relay-data --space shop --with-later
              annals relay void 1200-1399 1500 --data relay-data --space shop
              annals relay void --author laptop --from 1200 --data relay-data --space shop
              annals relay void --reported --data relay-data --space shop
            """)

    @Argument(help: "The position at which replicas stop, or a range such as 1200-1399.")
    var positions: [PositionRange] = []
    @Flag(help: "All entries that replicas reported.")
    var reported = false
    @Option(help: "All entries of this replica: its name, its id, or the beginning of its id.")
    var author: String?
    @Option(help: "With --author: only from this position on.")
    var from: Int64?
    @OptionGroup var folder: RelayDataOption
    @Option(help: "The space.")
    var space: SpaceName
    @Flag(name: .customLong("with-later"), help: "Also void later work that may depend on it.")
    var withLater = false
    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard [!positions.isEmpty, reported, author != nil].count(where: { $0 }) == 1 else {
            throw ValidationError("name positions, --author or --reported.")
        }
        guard from == nil || author != nil else { throw ValidationError("--from needs --author.") }
        guard from ?? 1 > 0 else { throw ValidationError("a position is at least 1.") }
    }

    func run() async throws {
        let database = try folder.openExisting()
        defer { try? database.close() }
        if positions.count == 1, let one = positions.first, one.isOne {
            try await void(one.positions.lowerBound, in: database)
        } else {
            try await void(try await selections(database), in: database)
        }
    }

    private func void(_ position: Position, in database: RelayDatabase) async throws {
        do {
            let outcome = try await RelayReplicas.found(space) {
                try await database.void(position, of: space, withLater: withLater, now: RelayReplicas.now, by: .thisUser)
            }
            show(outcome)
        } catch let refusal as VoidRefusal {
            throw error(refusal, at: position)
        }
    }

    private func selections(_ database: RelayDatabase) async throws -> [VoidSelection] {
        if reported { return [.reported] }
        if let author {
            let replica = try await RelayReplicas.record(author, of: space, in: database).replica
            return [.author(replica, from: Position(from ?? 1))]
        }
        return positions.sorted { $0.positions.lowerBound > $1.positions.lowerBound }.map { .range($0.positions) }
    }

    /// Voids the entries and reports each. Throws the first refusal at the end.
    private func void(_ selections: [VoidSelection], in database: RelayDatabase) async throws {
        var count = 0
        var refused: [AnnalsError] = []
        for selection in selections {
            let outcome = try await RelayReplicas.found(space) {
                try await database.void(selection, of: space, withLater: withLater, now: RelayReplicas.now, by: .thisUser)
            }
            for one in outcome.voided {
                show(one)
                count += one.voided.count
            }
            refused += outcome.refused.map { error($0.refusal, at: $0.position) }
        }
        if count == 0, refused.isEmpty, !output.json { output.console.print("\(space): nothing to void") }
        guard let first = refused.first else { return }
        for error in refused.dropFirst() { output.console.note(ErrorReport(error, root: RootCommand.self).line ?? "") }
        throw first
    }

    private func show(_ outcome: VoidOutcome) {
        if output.json { return output.console.print(json(outcome)) }
        let count = outcome.voided.count
        output.console.print(
            "\(space): position\(count == 1 ? "" : "s") \(list(outcome.voided)) of replica \(outcome.author) \(count == 1 ? "is" : "are") "
                + "void, as recorded at position \(outcome.entry)")
        for other in outcome.others {
            output.console.note("annals: note: later work of replica \(other) that may depend on it was voided too")
        }
        for snapshot in outcome.snapshots {
            output.console.note("annals: note: the snapshot at position \(snapshot) contained it and was deleted")
        }
    }

    private func list(_ positions: [Position]) -> String {
        guard let first = positions.first, let last = positions.last, last.rawValue - first.rawValue == Int64(positions.count - 1) else {
            return positions.map(\.description).joined(separator: ", ")
        }
        return first == last ? "\(first)" : "\(first) to \(last)"
    }

    private func json(_ outcome: VoidOutcome) -> JSON {
        .object([
            "space": .text(space.description), "voided": .array(outcome.voided.map { .integer($0.rawValue) }),
            "author": .text(outcome.author.description), "others": .array(outcome.others.map { .text($0.description) }),
            "entry": .integer(outcome.entry.rawValue),
            "snapshots": .array(outcome.snapshots.map { .integer($0.rawValue) }),
        ])
    }

    private func error(_ refusal: VoidRefusal, at position: Position) -> AnnalsError {
        switch refusal {
        case .noSuchPosition(let head, let horizon):
            AnnalsError(
                .usage, "the space \(space) has no entry at position \(position)",
                hint: "The log has positions \(horizon.next) to \(head); entries that a snapshot covers cannot be voided")
        case .isVoided: AnnalsError(.usage, "position \(position) is already void")
        case .cannotBeVoided:
            AnnalsError(.usage, "position \(position) is the space's first entry or the relay's own, and cannot be voided")
        case .isTakenIn(let replicas):
            AnnalsError(
                .constraint, "position \(position) was acknowledged by \(replicas.map(named).sorted().joined(separator: ", "))",
                hint: hint(replicas.sorted { named($0) < named($1) }))
        case .isBuiltUpon(let later):
            AnnalsError(
                .constraint, "position \(later), of its author or of a replica that had applied it, may depend on position \(position)",
                hint: "Nothing was changed; --with-later voids both")
        }
    }

    /// A replica's name, with its owner if that is known.
    private func named(_ replica: ReplicaRecord) -> String {
        let name = replica.name.isEmpty ? replica.replica.description : PrintableText.of(replica.name)
        return replica.credential == nil ? name : "\(name) (\(RelayReplicas.credential(replica)))"
    }

    private func hint(_ replicas: [ReplicaRecord]) -> String {
        let one = replicas.count == 1
        let retired = """
            \(one ? "That replica has" : "These replicas have") acknowledged the entry. Retire a replica that is gone for good: \
            annals relay retire
            """
        guard let owned = replicas.first(where: { $0.credential != nil }) else { return retired }
        return """
            \(retired). Quarantine an owner that must not hold back the void: annals relay quarantine \
            "\(RelayReplicas.credential(owned))"
            """
    }
}
