internal import CoreMetrics
internal import Metrics
internal import Synchronization

/// Stores the values that swift-metrics counts, and writes them in the Prometheus text format 0.0.4.
///
/// Instruments with the same label and dimensions share one series. A metric has at most `MetricLimits.series` series.
/// Further ones are not exported, so that requests cannot fill the memory.
final class PrometheusExporter: MetricsFactory {
    private struct Families: Sendable {
        var series: [String: [Labels: any Series]] = [:]
    }

    private let families = Mutex(Families())

    /// The counted values and the given readings as text.
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
        // A histogram's buckets keep their order.
        let groups = Dictionary(grouping: samples, by: \.labels)
        for labels in groups.keys.sorted() {
            for sample in groups[labels] ?? [] { text += sample.line + "\n" }
        }
        return text
    }

    /// Escapes text as the format requires.
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

    // MARK: MetricsFactory

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler { series(label, dimensions) { Total() } }

    func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler { series(label, dimensions) { Level() } }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        aggregate ? series(label, dimensions) { Histogram() } : series(label, dimensions) { Level() }
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { series(label, dimensions) { Histogram() } }

    // A counter that was destroyed and created again would start below its old value.
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

    /// The labels in braces, with one more if given; empty without labels.
    func braced(_ more: String? = nil) -> String {
        let all = [text, more ?? ""].filter { !$0.isEmpty }.joined(separator: ",")
        return all.isEmpty ? "" : "{\(all)}"
    }

    static func < (left: Self, right: Self) -> Bool { left.text < right.text }
}

/// One line of the output.
struct Sample: Sendable {
    /// The name of the metric.
    var name: String
    var labels: Labels
    fileprivate var line: String

    /// A current reading.
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

/// A counter that only rises.
private final class Total: CounterHandler, Series {
    private let value = Atomic<Int64>(0)

    func increment(by amount: Int64) { value.wrappingAdd(max(0, amount), ordering: .relaxed) }
    func reset() {}

    func samples(_ name: String, _ labels: Labels) -> [Sample] {
        [Sample(name, labels, Double(value.load(ordering: .relaxed)))]
    }
}

/// A gauge that rises and falls.
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

/// Counts the values at or below each bound. Times are in seconds.
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
