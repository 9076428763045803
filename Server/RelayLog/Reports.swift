package import AnnalsCore
internal import AnnalsWire

/// A receiver cannot apply an entry.
package struct EntryReport: Sendable, Hashable {
    package var position: Position
    /// Of the entry, as its batch states it: the report is about these bytes and no others.
    package var digest: Digest
    package var rule: RefusedEntry.Rule
    /// nil where the rule is about no table, and in a sealed space, whose relay learns no names.
    package var table: String?

    package init(position: Position, digest: Digest, rule: RefusedEntry.Rule, table: String? = nil) {
        self.position = position
        self.digest = digest
        self.rule = rule
        self.table = table
    }
}

/// An entry that receivers reported, for the operator.
package struct ReportedEntry: Sendable, Hashable {
    package var position: Position
    package var author: ReplicaID?
    /// What the author calls itself.
    package var name: String
    /// As the first report has it.
    package var rule: String
    package var table: String?
    /// The owners whose replicas reported it.
    package var reporters: [String]
    /// When the first report came, in milliseconds since 1970.
    package var time: Int64
}

/// What became of a report.
package enum ReportOutcome: Sendable, Hashable {
    case recorded
    /// The same owner reported the entry before.
    case known
    /// The log holds no such entry, or it is void.
    case noSuchEntry
    /// The space or the owner has as many reports as it may have.
    case full
}

extension RelayDatabase {
    /// Records that a receiver cannot apply an entry. The same owner's second report of an entry changes nothing, but where the first
    /// said that a key was missing, which says nothing of the entry.
    ///
    /// - Parameter owner: who reports; nil at a relay that is open to everybody, which counts as one owner.
    /// - Throws: `RelayLogError`.
    package func report(
        _ report: EntryReport, of name: SpaceName, by owner: ReplicaOwner?, limits: RelayLogLimits = RelayLogLimits(), now: Int64,
        as reporter: Operator? = nil
    ) async throws -> ReportOutcome {
        let line = AuditEntry(.entryReport, by: reporter, space: name, at: now)
        return try await RelayLogError.wrapped {
            try await storage.write { db in
                guard let space = try LogStorage.space(name, in: db, locking: true) else { throw RelayLogError.spaceNotFound }
                guard report.position > space.horizon, report.position <= space.head,
                    let run = try LogStorage.run(of: space.id, at: report.position, in: db)?.read(db)
                else { return .noSuchEntry }
                let header = try run.header()
                let index = run.firstIndex + Int(report.position.rawValue - run.firstPosition.rawValue)
                guard !header.isVoided, header.replica != .relay, header.certificates.indices.contains(index),
                    header.certificates[index].digest == report.digest
                else { return .noSuchEntry }
                let owner = owner?.text ?? ""
                let known = try ReportStorage.rule(of: report.position, by: owner, of: space.id, in: db)
                guard known == nil || (known == RefusedEntry.Rule.missingKey.rawValue && report.rule != .missingKey) else { return .known }
                try ReportStorage.forget(through: space.horizon, of: space.id, in: db)
                let (all, own) = try ReportStorage.count(by: owner, of: space.id, in: db)
                guard known != nil || (all < limits.reportsPerSpace && own < limits.reportsPerOwner) else { return .full }
                var report = report
                if header.keyID != 0 { report.table = nil }
                if known != nil { try ReportStorage.forget(report.position, by: owner, of: space.id, in: db) }
                guard try ReportStorage.add(report, by: owner, of: space.id, at: now, in: db) else { return .known }
                let table = report.table.map { " in \($0)" } ?? ""
                try AuditStorage.add(
                    line, subject: "\(report.position) by \(header.replica): \(report.rule.rawValue)\(table)", outcome: AuditEntry.done,
                    in: db)
                return .recorded
            }
        }
    }

    /// The entries that receivers reported and that are not void, newest first.
    ///
    /// - Throws: `RelayLogError`.
    package func reports(of name: SpaceName, limit: Int) async throws -> [ReportedEntry] {
        try await RelayLogError.wrapped {
            try await storage.read { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                return try ReportStorage.entries(of: space.id, after: space.horizon, limit: limit, in: db)
            }
        }
    }
}

extension RelayLog {
    /// See `RelayDatabase.report`; by this relay's clock and limits. An entry that enough owners reported is void then.
    package func report(
        _ report: EntryReport, of name: SpaceName, by owner: ReplicaOwner?, as reporter: Operator? = nil
    ) async throws -> ReportOutcome {
        let outcome = try await database.report(report, of: name, by: owner, limits: limits, now: clock.wall(), as: reporter)
        // Also where the report was known: who was beyond the entry then may be retired now.
        if [.recorded, .known].contains(outcome) { await voidReported(report.position, of: name) }
        return outcome
    }

    /// See `RelayDatabase.reports`.
    package func reports(of name: SpaceName, limit: Int) async throws -> [ReportedEntry] {
        try await database.reports(of: name, limit: limit)
    }
}
