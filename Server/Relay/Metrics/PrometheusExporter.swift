internal import CoreMetrics
internal import Metrics
internal import Synchronization

/// Keeps what is counted through swift-metrics, and writes it as Prometheus reads it (text format 0.0.4).
///
/// Instruments of the same label and dimensions share one series. A metric has at most `MetricLimits.series` of them; what would
/// be one more counts for nothing, so that nobody can fill the memory by asking for odd things.
final class PrometheusExporter: MetricsFactory {
    private struct Families: Sendable {
        var series: [String: [Labels: any Series]] = [:]
    }

    private let families = Mutex(Families())

    /// What was counted, and readings that are taken just now, as text.
    func text(with readings: [Sample] = []) -> String {
        var samples: [String: [Sample]] = [:]
        for (name, series) in families.withLock({ $0.series }) {
            samples[name] = series.flatMap { labels, series in series.samples(name, labels) }
        }
        for reading in readings { samples[reading.name, default: []].append(reading) }
        return samples.keys.sorted().map { Self.block($0, samples[$0] ?? []) }.joined()
    }

    private static func block(_ name: String, _ samples: [Sample]) -> String {
        var text = ""
        if let metric = MetricCatalogue.byName[name] {
            text += "# HELP \(name) \(escaped(metric.help, quotes: false))\n# TYPE \(name) \(metric.kind.rawValue)\n"
        }
        // Buckets stay in their order.
        let groups = Dictionary(grouping: samples, by: \.labels)
        for labels in groups.keys.sorted() {
            for sample in groups[labels] ?? [] { text += sample.line + "\n" }
        }
        return text
    }

    /// With the backslashes that the format asks for.
    static func escaped(_ text: String, quotes: Bool = true) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    private func series<T: Series>(_ name: String, _ dimensions: [(String, String)], _ make: () -> T) -> T {
        let labels = Labels(dimensions)
        return families.withLock { families in
            if let known = families.series[name]?[labels] as? T { return known }
            let new = make()
            if families.series[name]?.count ?? 0 < MetricLimits.series { families.series[name, default: [:]][labels] = new }
            return new
        }
    }

    // MARK: What swift-metrics asks for

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler { series(label, dimensions) { Total() } }

    func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler { series(label, dimensions) { Level() } }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        aggregate ? series(label, dimensions) { Histogram() } : series(label, dimensions) { Level() }
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { series(label, dimensions) { Histogram() } }

    // A total that vanished would come back as less than it was.
    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyMeter(_ handler: any MeterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}
}

/// The labels of a series, in a fixed order.
struct Labels: Hashable, Comparable, Sendable {
    private let text: String

    init(_ pairs: [(String, String)]) {
        text = pairs.sorted { $0.0 < $1.0 }.map { "\($0.0)=\"\(PrometheusExporter.escaped($0.1))\"" }.joined(separator: ",")
    }

    /// In braces, with one more where there is one; empty where there is none.
    func braced(_ more: String? = nil) -> String {
        let all = [text, more ?? ""].filter { !$0.isEmpty }.joined(separator: ",")
        return all.isEmpty ? "" : "{\(all)}"
    }

    static func < (left: Self, right: Self) -> Bool { left.text < right.text }
}

/// One line of the text.
struct Sample: Sendable {
    /// Of the metric.
    var name: String
    var labels: Labels
    fileprivate var line: String

    /// A reading as it is now.
    init(_ name: String, _ value: Double, _ labels: [(String, String)] = []) {
        self.init(name, Labels(labels), value)
    }

    fileprivate init(_ name: String, _ labels: Labels, suffix: String = "", bound: Double? = nil, _ value: Double) {
        self.name = name
        self.labels = labels
        line = "\(name)\(suffix)\(labels.braced(bound.map { "le=\"\(Self.text($0))\"" })) \(Self.text(value))"
    }

    private static func text(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        return value == value.rounded() && value.magnitude < 1e15 ? String(Int64(value)) : String(value)
    }
}

private protocol Series: AnyObject, Sendable {
    func samples(_ name: String, _ labels: Labels) -> [Sample]
}

/// Only rises.
private final class Total: CounterHandler, Series {
    private let value = Atomic<Int64>(0)

    func increment(by amount: Int64) { value.wrappingAdd(max(0, amount), ordering: .relaxed) }
    func reset() {}

    func samples(_ name: String, _ labels: Labels) -> [Sample] {
        [Sample(name, labels, Double(value.load(ordering: .relaxed)))]
    }
}

/// Rises and falls.
private final class Level: MeterHandler, RecorderHandler, Series {
    private let value = Mutex(0.0)

    func set(_ new: Int64) { set(Double(new)) }
    func set(_ new: Double) { value.withLock { $0 = new } }
    func increment(by amount: Double) { value.withLock { $0 += amount } }
    func decrement(by amount: Double) { value.withLock { $0 -= amount } }
    func record(_ new: Int64) { set(Double(new)) }
    func record(_ new: Double) { set(new) }

    func samples(_ name: String, _ labels: Labels) -> [Sample] { [Sample(name, labels, value.withLock { $0 })] }
}

/// How often a value was at most each bound. Times are in seconds.
private final class Histogram: TimerHandler, RecorderHandler, Series {
    private struct Counts {
        var buckets = [Int64](repeating: 0, count: MetricCatalogue.bounds.count)
        var count: Int64 = 0
        var sum = 0.0
    }

    private let counts = Mutex(Counts())

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }
    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        let bucket = MetricCatalogue.bounds.firstIndex { value <= $0 }
        counts.withLock { counts in
            if let bucket { counts.buckets[bucket] += 1 }
            counts.count += 1
            counts.sum += value
        }
    }

    func samples(_ name: String, _ labels: Labels) -> [Sample] {
        let counts = counts.withLock { $0 }
        var sum: Int64 = 0
        var samples = zip(MetricCatalogue.bounds, counts.buckets).map { bound, count in
            sum += count
            return Sample(name, labels, suffix: "_bucket", bound: bound, Double(sum))
        }
        samples.append(Sample(name, labels, suffix: "_bucket", bound: .infinity, Double(counts.count)))
        samples.append(Sample(name, labels, suffix: "_sum", counts.sum))
        samples.append(Sample(name, labels, suffix: "_count", Double(counts.count)))
        return samples
    }
}
