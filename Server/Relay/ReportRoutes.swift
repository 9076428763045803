internal import AnnalsCore
internal import AnnalsWire
internal import HTTPTypes
internal import Hummingbird
internal import RelayLog

/// Receivers report entries that they cannot apply, and operators list them.
struct ReportRoutes: Sendable {
    let log: RelayLog
    let bodies: BodyReader

    /// POST /v1/spaces/{space}/reports: 204, also for a known report. Needs write permission, because otherwise a
    /// read-only token could fill the list.
    func report(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .write)
        let report = try await bodies.object(EntryReportRequest.self, of: request).checked()
        switch try await log.report(report, of: space, by: context.access.owner, as: context.operatorName) {
        case .recorded, .known:
            return Response(status: .noContent, headers: [.cacheControl: "no-store"])
        case .noSuchEntry:
            throw ProblemResponse(.notFound, detail: "The log has no such entry at position \(report.position)")
        case .full:
            throw ProblemResponse(
                .tooManyRequests, detail: "The space has reached its limit of reports", hint: "Ask the operator to void the entries")
        }
    }

    /// GET /v1/spaces/{space}/reports?limit=N: newest first.
    func list(_ request: Request, _ context: RelayRequestContext) async throws -> Response {
        let space = try context.space(for: .admin)
        let reports = try await log.reports(of: space, limit: try request.listed())
        return JSONBody.response(ReportList(reports: reports.map(ReportList.Report.init), time: log.clock.wall()))
    }
}

extension EntryReportRequest: AdminRequest {
    func checked() throws -> EntryReport {
        // Position 0 is accepted here; the log then answers that it has no such entry.
        guard position >= 0, let digest = Digest(digest), let rule = RefusedEntry.Rule(rawValue: rule) else {
            throw ProblemResponse.badRequest("position, digest or rule is not valid")
        }
        if let table {
            let isPrintable = !table.unicodeScalars.contains { $0.properties.generalCategory == .control }
            guard table.unicodeScalars.count <= Self.tableCharacters, isPrintable else {
                throw ProblemResponse.badRequest(
                    "table has more than \(Self.tableCharacters) characters, or a control character")
            }
        }
        return EntryReport(position: Position(position), digest: digest, rule: rule, table: table)
    }
}

struct ReportList: Encodable {
    var reports: [Report]
    var time: Int64

    struct Report: Encodable {
        var position: Position
        var author: ReplicaID?
        var name: String
        var rule: String
        var table: String?
        /// How many owners reported it.
        var reporters: Int
        /// When the first report came.
        var reported: Int64

        init(_ entry: ReportedEntry) {
            position = entry.position
            author = entry.author
            name = entry.name
            rule = entry.rule
            table = entry.table
            reporters = entry.reporters.count
            reported = entry.time
        }
    }
}
