internal import AnnalsWire
internal import HTTPTypes
internal import CoreMetrics
internal import Metrics
internal import RelayLog
internal import Synchronization

/// The values that the relay counts through swift-metrics.
final class RelayMetrics: Sendable {
    private typealias Name = MetricCatalogue.Name

    let exporter: PrometheusExporter
    let broken: Counter
    /// Requests of replicas that have seen another log.
    let contradictions: Counter
    let pushedTransactions: Counter
    /// From the arrival of a push until its commit.
    let commits: Timer
    /// From the receipt of a transaction until the answer to a pull that waited for it.
    let deliveries: Timer
    let pulledPages: Counter
    let snapshotsReceived: Counter
    let snapshotsRefuted: Counter
    let snapshotsSent: Counter
    let receivedBytes: Counter
    let sentBytes: Counter
    let connections: Meter
    let eventStreams: Meter
    private let purges: Counter
    private let purgedBytes: Counter
    private let purgeFailures: Counter
    private let backupFailures: Counter
    /// Instruments are cached for each combination of labels, because each request needs several.
    private let requests = Mutex<[RequestLabels: (count: Counter, time: Timer)]>([:])
    private let pushes = Mutex<[String: Counter]>([:])

    private struct RequestLabels: Hashable {
        var route: String
        var method: String
        var status: Int
    }

    init(exporter: PrometheusExporter = PrometheusExporter()) {
        func counter(_ name: String) -> Counter { Counter(label: name, factory: exporter) }
        func meter(_ name: String) -> Meter { Meter(label: name, factory: exporter) }
        self.exporter = exporter
        broken = counter(Name.broken)
        contradictions = counter(Name.contradictions)
        pushedTransactions = counter(Name.pushedTransactions)
        commits = Timer(label: Name.commitSeconds, factory: exporter)
        deliveries = Timer(label: Name.deliverySeconds, factory: exporter)
        pulledPages = counter(Name.pulledPages)
        snapshotsReceived = counter(Name.snapshotsReceived)
        snapshotsRefuted = counter(Name.snapshotsRefuted)
        snapshotsSent = counter(Name.snapshotsSent)
        receivedBytes = counter(Name.receivedBytes)
        sentBytes = counter(Name.sentBytes)
        connections = meter(Name.connections)
        eventStreams = meter(Name.eventStreams)
        purges = counter(Name.purges)
        purgedBytes = counter(Name.purgedBytes)
        purgeFailures = counter(Name.purgeFailures)
        backupFailures = counter(Name.backupFailures)
        // Prometheus sees no increase if a series appears with the value 1, so each series starts at 0.
        contradictions.increment(by: 0)
        for code in Problem.Code.allCases { problem(code.rawValue).increment(by: 0) }
        for outcome in PushAnswer.Outcome.words { push(outcome).increment(by: 0) }
        for quota in Quota.allCases { for bound in QuotaBound.allCases { refusal(quota, bound).increment(by: 0) } }
    }

    /// Counts an answered request. `route` is the path with the names of its parameters, never text from the client.
    func noteRequest(_ method: HTTPRequest.Method, route: String, status: Int, problem: String?, took duration: Duration) {
        // A client can send any method name.
        let method = Self.methods.contains(method) ? method.rawValue : "other"
        let labels = RequestLabels(route: route, method: method, status: status)
        let (count, time) = requests.withLock { requests in
            if let known = requests[labels] { return known }
            let dimensions = [("route", route), ("method", method), ("status", String(status))]
            let new = (
                count: Counter(label: Name.requests, dimensions: dimensions, factory: exporter),
                time: Timer(label: Name.requestSeconds, dimensions: [("route", route)], factory: exporter)
            )
            requests[labels] = new
            return new
        }
        count.increment()
        time.record(duration: duration)
        if let problem { self.problem(problem).increment() }
    }

    private func problem(_ code: String) -> Counter {
        Counter(label: Name.problems, dimensions: [("code", code)], factory: exporter)
    }

    private func refusal(_ quota: Quota, _ bound: QuotaBound) -> Counter {
        Counter(label: Name.quotaRefusals, dimensions: [("quota", quota.rawValue), ("bound", bound.rawValue)], factory: exporter)
    }

    func noteRefusal(_ quota: Quota, _ bound: QuotaBound) {
        refusal(quota, bound).increment()
    }

    private func push(_ outcome: String) -> Counter {
        Counter(label: Name.pushes, dimensions: [("outcome", outcome)], factory: exporter)
    }

    private static let methods: Set<HTTPRequest.Method> = [.get, .head, .put, .post, .delete, .patch, .options]

    /// - Parameter outcome: one of a few fixed words.
    func notePush(_ outcome: String, transactions: Int) {
        let count = pushes.withLock { pushes in
            if let known = pushes[outcome] { return known }
            let new = push(outcome)
            pushes[outcome] = new
            return new
        }
        count.increment()
        pushedTransactions.increment(by: transactions)
    }

    func notePurge(bytes: Int64) {
        purges.increment()
        purgedBytes.increment(by: bytes)
    }

    func noteFailedPurge() {
        purgeFailures.increment()
    }

    func noteFailedBackup() {
        backupFailures.increment()
    }
}
