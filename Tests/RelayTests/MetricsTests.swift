import AnnalsCore
import AnnalsWire
import CoreMetrics
import Foundation
import HTTPTypes
import Hummingbird
import RelayLog
import RelayTestSupport
import Testing
import Yams

@testable import Relay

/// The metrics of a relay.
@Suite struct MetricsTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    // MARK: The format

    @Test func `series have sorted labels, escaped values, and a head that says what they are`() {
        let exporter = PrometheusExporter()
        Counter(label: "odd", dimensions: [("b", "2"), ("a", "back\\slash \"quote\"\nline")], factory: exporter).increment(by: 3)
        Counter(label: "odd", dimensions: [("a", "back\\slash \"quote\"\nline"), ("b", "2")], factory: exporter).increment()
        Meter(label: MetricCatalogue.Name.connections, factory: exporter).set(1.5)
        let text = exporter.text(with: [Sample("now", .infinity), Sample("never", .nan), Sample("big", 1e300)])
        #expect(
            text == """
                # HELP annals_relay_connections Open connections.
                # TYPE annals_relay_connections gauge
                annals_relay_connections 1.5
                big 1e+300
                never NaN
                now +Inf
                odd{a="back\\\\slash \\"quote\\"\\nline",b="2"} 4

                """)
    }

    @Test func `a histogram counts in rising buckets, of seconds`() {
        let exporter = PrometheusExporter()
        let timer = CoreMetrics.Timer(label: "t", dimensions: [("route", "/x")], factory: exporter)
        for milliseconds: Int64 in [0, 1, 3, 100, 70_000] { timer.recordMilliseconds(milliseconds) }
        let lines = exporter.text().split(separator: "\n").map(String.init)
        #expect(lines.count == MetricCatalogue.bounds.count + 3)
        #expect(lines[0] == "t_bucket{route=\"/x\",le=\"0.001\"} 2")
        #expect(lines.contains("t_bucket{route=\"/x\",le=\"0.005\"} 3") && lines.contains("t_bucket{route=\"/x\",le=\"0.1\"} 4"))
        #expect(lines.contains("t_bucket{route=\"/x\",le=\"60\"} 4") && lines.contains("t_bucket{route=\"/x\",le=\"+Inf\"} 5"))
        #expect(lines.suffix(2) == ["t_sum{route=\"/x\"} 70.104", "t_count{route=\"/x\"} 5"])
        let counts = lines.dropLast(2).compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }
        #expect(counts == counts.sorted())
    }

    @Test func `a metric has so many series and no more`() {
        let exporter = PrometheusExporter()
        for number in 0..<MetricLimits.series + 50 {
            Counter(label: "many", dimensions: [("n", String(number))], factory: exporter).increment()
        }
        #expect(exporter.text().split(separator: "\n").count == MetricLimits.series)
    }

    // MARK: The metrics

    /// Scrapes until the readings of the storage are there: on a machine under load it may not answer in time.
    private func scrapeReadings(_ client: RelayClient, token: String? = nil) async throws -> [String: Double] {
        for _ in 1..<20 {
            let values = try await scrape(client, token: token)
            if values["annals_relay_spaces"] != nil { return values }
        }
        return try await scrape(client, token: token)
    }

    /// The values of /metrics, by series.
    private func scrape(_ client: RelayClient, token: String? = nil) async throws -> [String: Double] {
        let response = try await client.with(token: token).send(.get, Endpoints.metrics)
        #expect(response.status == .ok && response.headers[.contentType] == "text/plain; version=0.0.4; charset=utf-8")
        var values: [String: Double] = [:]
        for line in String(decoding: response.bytes, as: UTF8.self).split(separator: "\n") where !line.hasPrefix("#") {
            let end = try #require(line.lastIndex(of: " "))
            let value = try #require(Double(line[line.index(after: end)...]))
            values[String(line[..<end])] = value
        }
        return values
    }

    @Test func `pushes, pulls, refusals, snapshots and what the storage holds are told`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var (one, other) = (TestReplica(1), TestReplica(2))
            let batch = one.batch(lineage, base: .zero, .writing(1), .writing(2))
            #expect(try await client.push(batch.bytes).status == .ok)
            one.accept(batch)
            #expect(try await client.push(other.batch(lineage, base: .zero, .writing(1)).bytes).status == .ok)
            #expect(try await client.upload([1, 2, 3], position: 2).status == .created)
            #expect(try await client.send(.get, "/v1/spaces/shop/snapshot").status == .ok)
            let page = "/v1/spaces/shop/entries?after=0"
            #expect(try await client.send(.get, page, headers: [.replica: one.id.description]).status == .ok)
            #expect(try await client.send(.get, page + "&wait=0").status == .ok)
            try await client.push([1, 2, 3]).expectProblem(422, "corrupt-batch")

            let values = try await scrapeReadings(client)
            let push = "/v1/spaces/{space}/push"
            #expect(values["annals_relay_requests_total{method=\"POST\",route=\"\(push)\",status=\"200\"}"] == 2)
            #expect(values["annals_relay_requests_total{method=\"POST\",route=\"\(push)\",status=\"422\"}"] == 1)
            #expect(values["annals_relay_request_seconds_count{route=\"\(push)\"}"] == 3)
            #expect(values["annals_relay_request_seconds_count{route=\"/v1/spaces/{space}/entries?wait\"}"] == 1)
            #expect(values["annals_relay_problems_total{code=\"corrupt-batch\"}"] == 1)
            #expect(values["annals_relay_pushes_total{outcome=\"accepted\"}"] == 1)
            #expect(values["annals_relay_pushes_total{outcome=\"stale\"}"] == 1)
            #expect(values["annals_relay_pushed_transactions_total"] == 2)
            #expect(values["annals_relay_pulled_pages_total"] == 2)
            #expect(values["annals_relay_snapshots_received_total"] == 1 && values["annals_relay_snapshots_sent_total"] == 1)
            #expect(values["annals_relay_spaces"] == 1 && values["annals_relay_ready"] == 1)
            #expect(values["annals_relay_space_head{space=\"shop\"}"] == 2)
            #expect(values["annals_relay_space_horizon{space=\"shop\"}"] == 0)
            #expect(values["annals_relay_space_written_bytes_total{space=\"shop\"}"] == Double(batch.bytes.count))
            #expect(values["annals_relay_space_snapshot_position{space=\"shop\"}"] == 2)
            #expect(values["annals_relay_storage_bytes{part=\"snapshots\"}"] == Double(TestSnapshot.bytes([1, 2, 3]).count))
            #expect(try #require(values["annals_relay_storage_bytes{part=\"database\"}"]) > 0)
            #expect((values["annals_relay_disk_free_bytes"] ?? 0 > 0) == (TestStorage.postgres == nil))
            #if os(Linux)
                #expect(try #require(values["process_resident_memory_bytes"]) > 1_000_000)
                #expect(try #require(values["process_open_fds"]) > 2)
            #endif
        }
    }

    @Test func `a live replica's lag is told, a retired one's is not`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            var one = TestReplica(1)
            let other = TestReplica(2)
            #expect(try await client.push(one.batch(lineage, base: .zero, .writing(1), .writing(2)).bytes).status == .ok)
            #expect(
                try await client.send(.get, "/v1/spaces/shop/entries?after=1", headers: [.replica: other.id.description]).status == .ok)
            #expect(try await fixture.log.replicas(of: .shop).count == 2)
            let lag = { (replica: TestReplica) in "annals_relay_replica_lag{replica=\"\(replica.id)\",space=\"shop\"}" }
            let values = try await scrapeReadings(client)
            #expect(values[lag(one)] == 0 && values[lag(other)] == 1 && values["annals_relay_replicas"] == 2)
            #expect(
                try #require(values["annals_relay_replica_seen_seconds{replica=\"\(other.id)\",space=\"shop\"}"]) > 1_700_000_000)
            #expect(try await fixture.log.retire(one.id, of: .shop))
            let usage = try await fixture.log.usage(spaces: 10, replicas: 10, silence: 1000 * 86_400)
            #expect(usage.replicas.map(\.replica) == [other.id] && usage.replicaCount == 1)
            #expect(try await fixture.log.usage(spaces: 0, replicas: 10, silence: -1000).replicas.isEmpty)
        }
    }

    @Test func `what strangers send makes no new series`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            for number in 0..<20 {
                _ = try await client.send(try #require(HTTPRequest.Method("BREW\(number)")), "/nowhere/\(number)?wait=\(number)")
                _ = try await client.send(.get, "/v1/spaces/unknown\(number)")
            }
            let text = String(decoding: try await client.send(.get, Endpoints.metrics).bytes, as: UTF8.self)
            #expect(!text.contains("BREW") && !text.contains("nowhere") && !text.contains("unknown"))
            #expect(text.contains("method=\"other\""))
        }
    }

    @Test func `metrics are for an operator of all spaces, or who has the token that is for them`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        let tokens = fixture.log.tokens
        let (admin, _) = try await tokens.create(scope: .admin)
        let (writer, _) = try await tokens.create(scope: .write)
        let (local, _) = try await tokens.create(space: .shop, scope: .admin)
        let responder = Routes.responder(
            log: fixture.log, configuration: fixture.configuration, scrapeToken: ScrapeToken("only-for-metrics"))
        let client = RelayClient(responder: responder)
        for token in [admin, "only-for-metrics"] { _ = try await scrape(client, token: token) }
        for token in [writer, local] {
            try await client.with(token: token).send(.get, Endpoints.metrics).expectProblem(403, "not-permitted")
        }
        for token in [nil, "only-for-metric", "only-for-metricsx"] {
            try await client.with(token: token).send(.get, Endpoints.metrics).expectProblem(401, "not-authenticated")
        }
        try await client.with(token: "only-for-metrics").send(.get, "/v1/spaces/shop").expectProblem(401, "not-authenticated")
    }

    @Test(.filesOnly) func `a relay below its disk's reserve is live, not ready, and says so`() async throws {
        var limits = RelayLimits()
        limits.diskReserveBytes = .max
        let fixture = try RelayFixture(limits: limits)
        try await fixture.run { client in
            #expect(try await client.send(.get, Endpoints.live).status == .ok)
            let response = try await client.send(.get, Endpoints.ready)
            try response.expectProblem(503, "unavailable")
            #expect(response.headers[.retryAfter] != nil)
            #expect(try await scrape(client)["annals_relay_ready"] == 0)
        }
    }

    @Test(.filesOnly) func `while the storage does not answer the metrics say so, without those of the storage`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            await fixture.log.close()
            let values = try await scrape(client)
            #expect(values["annals_relay_ready"] == 0 && values["annals_relay_spaces"] == nil && values["annals_relay_watchers"] == 0)
        }
    }

    @Test func `the newest backup has its moment, which only administrators of all spaces see in the list`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        _ = try await fixture.log.createSpace(.shop)
        let (boss, _) = try await fixture.log.tokens.create(scope: .admin)
        let (other, _) = try await fixture.log.tokens.create(space: .shop, scope: .admin)
        struct Spaces: Decodable { var backup: Int64? }
        try await fixture.run { client in
            let values = try await scrapeReadings(client, token: boss)
            #expect(values["annals_relay_backup_seconds"] == 0)
            let list = try await client.with(token: boss).send(.get, "/v1/spaces").json(Spaces.self)
            #expect(list.backup == nil)
        }
        let beside = try TestStorage.database(fixture.directory.path)
        for time: Int64 in [1_000, 2_000] { try await beside.noteBackup(to: "/backup/\(time)", at: time, by: .commandLine(user: "ann")) }
        try beside.close()
        // Without the readings that a relay keeps for some seconds.
        try await fixture.run { client in
            let values = try await scrapeReadings(client, token: boss)
            #expect(values["annals_relay_backup_seconds"] == 2)
            let all = try await client.with(token: boss).send(.get, "/v1/spaces").json(Spaces.self)
            let own = try await client.with(token: other).send(.get, "/v1/spaces").json(Spaces.self)
            #expect(all.backup == 2_000 && own.backup == nil)
        }
        let line = try #require(try await fixture.log.audit(limit: 1).first)
        #expect(line.action == "relay-backup" && line.subject == "/backup/2000" && line.actor == "cli (ann)" && line.space == nil)
    }

    @Test func `only a replica that has seen another log counts as a contradiction, not a read of a wrong position`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let own: HTTPFields = [.lineage: try await client.create().lineage.description]
            for headers in [HTTPFields(), own] {
                for path in ["/entries?after=99", "/snapshot?position=99"] {
                    try await client.send(.get, "/v1/spaces/shop" + path, headers: headers).expectProblem(409, "log-rolled-back")
                }
            }
            #expect(try await scrape(client)["annals_relay_contradictions_total"] == 0)
            let other: HTTPFields = [.lineage: Lineage.random().description]
            var further = own
            further[.seen] = LogMark(lineage: .random(), position: Position(9), digest: .zero).headerValue
            for headers in [other, further] {
                try await client.send(.get, "/v1/spaces/shop/entries?after=0", headers: headers).expectProblem(409, "log-rolled-back")
            }
            #expect(try await scrape(client)["annals_relay_contradictions_total"] == 2)
        }
    }

    @Test func `what an alert waits for is there before it happens, since Prometheus must see it rise`() async throws {
        let fixture = try RelayFixture()
        try await fixture.run { client in
            let values = try await scrape(client)
            for code in Problem.Code.allCases { #expect(values["annals_relay_problems_total{code=\"\(code.rawValue)\"}"] == 0, "\(code)") }
            for outcome in PushAnswer.Outcome.words {
                #expect(values["annals_relay_pushes_total{outcome=\"\(outcome)\"}"] == 0, "\(outcome)")
            }
        }
    }

    @Test func `the time of a commit, and of the way to a pull that waits, are told`() async throws {
        let clock = TestClock()
        let fixture = try RelayFixture(clock: clock.clock)
        try await fixture.run { client in
            let lineage = try await client.create().lineage
            let before = try await scrape(client)
            #expect(before["annals_relay_commit_seconds_count"] == 0 && before["annals_relay_delivery_seconds_count"] == 0)
            var (one, other) = (TestReplica(1), TestReplica(2))
            async let waiting = client.send(.get, "/v1/spaces/shop/entries?after=0&wait=60")
            while fixture.log.waiterCount < 1 { await Task.yield() }
            clock.advance(milliseconds: 5)
            #expect(try await client.push(one.batch(lineage, base: .zero, .writing(1)).bytes).status == .ok)
            #expect(try await waiting.status == .ok)
            // Neither a refused push nor a pull that finds the entry counts.
            #expect(try await client.push(other.batch(lineage, base: .zero, .writing(1)).bytes).status == .ok)
            #expect(try await client.send(.get, "/v1/spaces/shop/entries?after=0&wait=60").status == .ok)
            let values = try await scrape(client)
            #expect(values["annals_relay_commit_seconds_count"] == 1 && values["annals_relay_commit_seconds_bucket{le=\"0.001\"}"] == 1)
            #expect(values["annals_relay_delivery_seconds_count"] == 1 && values["annals_relay_delivery_seconds_sum"] == 0)
        }
    }

    @Test func `the delay of a page is that of its oldest transaction, if the pull waited for it`() {
        var page = Page(lineage: .random(), head: Position(2), horizon: .zero, after: .zero, isLast: true)
        #expect(LogRoutes.delay(of: page, since: 1000, now: 9000) == nil)
        page.frames = [1500, 1700].enumerated().map { index, time in
            LogFrame(firstPosition: Position(Int64(index) + 1), acceptedCount: 1, receivedAt: time, batch: [])
        }
        #expect(LogRoutes.delay(of: page, since: 1000, now: 1900) == 400)
        #expect(LogRoutes.delay(of: page, since: 1500, now: 1900) == nil)
        #expect(LogRoutes.delay(of: page, since: 1000, now: 1400) == 0)
    }

    // MARK: The documents

    @Test func `the documentation has every metric with its kind and labels, and no other`() throws {
        let text = try String(contentsOf: Self.root.appendingPathComponent("Documentation/relay.md"), encoding: .utf8)
        var documented: [String: String] = [:]
        for line in text.split(separator: "\n") where line.hasPrefix("| `annals_relay_") || line.hasPrefix("| `process_") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            try #require(cells.count == 4, "\(line)")
            documented[cells[0]] = "\(cells[1]) \(cells[2])"
        }
        for metric in MetricCatalogue.all {
            let labels = metric.labels.map { "`\($0)`" }.joined(separator: ", ")
            #expect(documented["`\(metric.name)`"] == "\(metric.kind.rawValue) \(labels)", "\(metric.name)")
        }
        #expect(documented.count == MetricCatalogue.all.count)
    }

    @Test func `alert rules are whole, and ask for metrics, labels and codes that there are`() throws {
        let text = try String(contentsOf: Self.root.appendingPathComponent("Config/alerts.yaml"), encoding: .utf8)
        let file = try #require(try Yams.load(yaml: text) as? [String: Any])
        let groups = try #require(file["groups"] as? [[String: Any]])
        let rules = groups.flatMap { $0["rules"] as? [[String: Any]] ?? [] }
        #expect(rules.count > 10)
        var used: Set<String> = []
        for rule in rules {
            let name = try #require(rule["alert"] as? String)
            let expression = try #require(rule["expr"] as? String, "\(name)")
            let annotations = try #require(rule["annotations"] as? [String: String], "\(name)")
            #expect(annotations["summary"] != nil && annotations["description"] != nil, "\(name)")
            #expect(["warning", "critical"].contains((rule["labels"] as? [String: String])?["severity"]), "\(name)")
            for match in expression.matches(of: /((?:annals|process)_\w+)(?:\{(?<labels>(?:[^}"]|"[^"]*")*)\})?/) {
                let metric = try #require(Self.metric(String(match.output.1)), "\(match.output.1)")
                used.insert(metric.name)
                for label in (match.output.labels ?? "").matches(of: /(\w+)=~?"([^"]*)"/) {
                    let key = String(label.output.1)
                    #expect(metric.labels.contains(key) || key == "job", "\(name): \(key)")
                    if key == "code" {
                        for code in label.output.2.split(separator: "|") { #expect(Problem.Code(rawValue: String(code)) != nil, "\(code)") }
                    }
                }
            }
        }
        for kind in ["ready", "replica_lag", "disk_free_bytes", "problems_total", "certificate_expiry_seconds"] {
            #expect(used.contains("annals_relay_" + kind))
        }
    }

    private static func metric(_ name: String) -> MetricCatalogue.Metric? {
        if let metric = MetricCatalogue.byName[name], metric.kind != .histogram { return metric }
        let parts = ["_bucket", "_sum", "_count"].filter(name.hasSuffix)
        return parts.compactMap { MetricCatalogue.byName[String(name.dropLast($0.count))] }.first { $0.kind == .histogram }
    }
}
