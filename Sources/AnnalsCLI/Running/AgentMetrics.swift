import AnnalsCore
import AnnalsSync
import Foundation
import Synchronization

/// Delays of the transactions that a watching sync sent and received, in a file in the Prometheus text format 0.0.4.
final class AgentMetrics: Sendable {
    private struct Counts {
        var sent = Delays()
        var received = Delays()
    }

    private let path: String
    private let stores: Mutex<[String: Counts]>

    /// Writes the file for the first time.
    ///
    /// - Parameter stores: the paths of the stores, which are the label of each series.
    /// - Throws: `AnnalsError` of code `cannotCreate`.
    init(path: String, stores: [String]) throws(AnnalsError) {
        self.path = path
        self.stores = Mutex(Dictionary(stores.map { ($0, Counts()) }, uniquingKeysWith: { first, _ in first }))
        try write()
    }

    /// Adds an exchange of a store, and replaces the file.
    ///
    /// - Throws: `AnnalsError` of code `cannotCreate`. The next call writes what this one could not.
    func note(_ store: String, _ summary: SyncAgent.Summary) throws(AnnalsError) {
        stores.withLock { stores in
            stores[store, default: Counts()].sent += summary.pushed.delays
            stores[store, default: Counts()].received += summary.pulled.delays
        }
        try write()
    }

    /// Readers see the old file or the new one. The lock keeps an older text from replacing a newer one.
    private func write() throws(AnnalsError) {
        let failure = stores.withLock { stores in
            Result { try Data(Self.text(stores).utf8).write(to: URL(fileURLWithPath: path), options: .atomic) }
        }
        do {
            try failure.get()
        } catch {
            throw AnnalsError(
                .cannotCreate, operation: "sync", "the metrics cannot be written to \(path)", hint: "Check the folder of the file",
                underlying: error)
        }
    }

    private static func text(_ stores: [String: Counts]) -> String {
        let names = stores.keys.sorted()
        return family(
            "annals_agent_sent_seconds", "Time from an own transaction until the relay's answer was stored.",
            names.map { ($0, stores[$0]?.sent) })
            + family(
                "annals_agent_received_seconds",
                "Time from a transaction of another replica until it was applied here, by the clocks of both machines.",
                names.map { ($0, stores[$0]?.received) })
    }

    private static func family(_ name: String, _ help: String, _ series: [(store: String, delays: Delays?)]) -> String {
        var text = "# HELP \(name) \(help)\n# TYPE \(name) histogram\n"
        for (store, delays) in series {
            guard let delays else { continue }
            let label = "store=\"\(escaped(store))\""
            var sum = 0
            for (bound, count) in zip(Delays.bounds, delays.counts) {
                sum += count
                text += "\(name)_bucket{\(label),le=\"\(bound == bound.rounded() ? String(Int(bound)) : String(bound))\"} \(sum)\n"
            }
            text += "\(name)_bucket{\(label),le=\"+Inf\"} \(delays.count)\n"
            text += "\(name)_sum{\(label)} \(delays.seconds)\n\(name)_count{\(label)} \(delays.count)\n"
        }
        return text
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}
