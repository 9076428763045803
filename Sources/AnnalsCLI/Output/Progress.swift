import Foundation
import Synchronization

/// The progress of a longer task, drawn on one line of a terminal and nowhere else.
///
/// The line appears after a short time, so that quick tasks print nothing, and it is removed at the end.
final class Progress: Sendable {
    private struct State {
        var label: String
        var done: Int64 = 0
        var total: Int64?
        var unit = Unit.count
        var isDrawn = false
    }

    enum Unit: Sendable { case count, bytes }

    private let sink: any Sink
    private let state: Mutex<State>
    private let start = ContinuousClock.now

    private static let silence = Duration.milliseconds(400)
    private static let interval = Duration.milliseconds(100)
    private static let barColumns = 24

    private init(_ label: String, sink: any Sink) {
        self.sink = sink
        state = Mutex(State(label: label))
    }

    /// Runs `body` and draws the progress that it reports.
    static func during<T: Sendable>(
        _ label: String, on console: Console, _ body: @Sendable (Progress) async throws -> T
    ) async throws -> T {
        let progress = Progress(label, sink: console.sink)
        guard console.showsProgress else { return try await body(progress) }
        defer { progress.clear() }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await progress.redraw() }
            defer { group.cancelAll() }
            return try await body(progress)
        }
    }

    /// Records the progress. A call is cheap, so a task may call it often.
    func report(_ label: String? = nil, done: Int64, of total: Int64? = nil, _ unit: Unit = .count) {
        state.withLock { state in
            if let label { state.label = label }
            state.done = done
            state.total = total
            state.unit = unit
        }
    }

    private func redraw() async throws {
        try await ContinuousClock().sleep(for: Self.silence)
        while true {
            draw()
            try await ContinuousClock().sleep(for: Self.interval)
        }
    }

    private func draw() {
        let line = state.withLock { state in
            state.isDrawn = true
            return Self.line(
                state.label, done: state.done, total: state.total, unit: state.unit, seconds: (ContinuousClock.now - start) / .seconds(1))
        }
        sink.writeError("\r\u{1B}[K" + line)
    }

    private func clear() {
        if state.withLock({ $0.isDrawn }) { sink.writeError("\r\u{1B}[K") }
    }

    static func line(_ label: String, done: Int64, total: Int64?, unit: Unit, seconds: Double) -> String {
        let time = " \(Int(seconds)) s"
        if let total, total > 0 {
            let share = min(1, Double(done) / Double(total))
            let filled = Int(share * Double(barColumns))
            let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: barColumns - filled)
            return "\(label) \(bar) \(Int(share * 100)) %\(time)"
        }
        switch unit {
        case .count: return done > 0 ? "\(label) \(done)\(time)" : "\(label)\(time)"
        case .bytes: return done > 0 ? "\(label) \(ByteCount.text(done))\(time)" : "\(label)\(time)"
        }
    }
}

/// Sizes as text.
enum ByteCount {
    static func text(_ bytes: Int64) -> String {
        var number = Double(bytes)
        for unit in ["bytes", "KiB", "MiB", "GiB"] {
            if number < 1024 || unit == "GiB" {
                return unit == "bytes" ? "\(bytes) bytes" : "\((number * 10).rounded() / 10) \(unit)"
            }
            number /= 1024
        }
        return "\(bytes) bytes"
    }
}
