package import AnnalsCore
internal import AnnalsWire

/// A receiver's report that it cannot apply an entry.
package struct EntryReport: Sendable, Hashable {
    package var position: Position
    /// The digest of the entry in its batch: the report is only about these bytes.
    package var digest: Digest
    package var rule: RefusedEntry.Rule
    /// nil if the rule concerns no table, and in an encrypted space, because its relay gets no names.
    package var table: String?

    package init(position: Position, digest: Digest, rule: RefusedEntry.Rule, table: String? = nil) {
        self.position = position
        self.digest = digest
        self.rule = rule
        self.table = table
    }
}

/// A reported entry, for the operator.
package struct ReportedEntry: Sendable, Hashable {
    package var position: Position
    package var author: ReplicaID?
    /// The name that the author gave itself.
    package var name: String
    /// The rule in the first report.
    package var rule: String
    package var table: String?
    /// The owners whose replicas reported it.
    package var reporters: [String]
    /// When the first report came, in milliseconds since 1970.
    package var time: Int64
}

/// The result of a report.
package enum ReportOutcome: Sendable, Hashable {
    case recorded
    /// The same owner reported the entry already.
    case known
    /// The log holds no such entry, or it is void.
    case noSuchEntry
    /// The space or the owner has reached its limit of reports.
    case full
}

extension RelayDatabase {
    /// Records that a receiver cannot apply an entry. A second report of the same owner changes nothing, unless the
    /// first one said that a key was missing: that is no statement about the entry.
    ///
    /// - Parameter owner: who reports; nil on an open relay, which counts as one owner.
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

    /// The reported entries that are not void, newest first.
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
    /// See `RelayDatabase.report`; uses this relay's clock and limits. Afterwards it voids the entry if enough owners
    /// reported it.
    package func report(
        _ report: EntryReport, of name: SpaceName, by owner: ReplicaOwner?, as reporter: Operator? = nil
    ) async throws -> ReportOutcome {
        let outcome = try await database.report(report, of: name, by: owner, limits: limits, now: clock.wall(), as: reporter)
        // Also for a known report: a replica that had applied the entry then may be retired now.
        if [.recorded, .known].contains(outcome) { await voidReported(report.position, of: name) }
        return outcome
    }

    /// See `RelayDatabase.reports`.
    package func reports(of name: SpaceName, limit: Int) async throws -> [ReportedEntry] {
        try await database.reports(of: name, limit: limit)
    }
}
