import AnnalsSQLite
import AnnalsStore
import ArgumentParser
import Foundation
import Simulation

/// Runs seeds until one fails or all are done. Prints the story of the first failure.
@main
struct Simulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "annals-simulate", abstract: "Run worlds of replicas, each from one seed, and check every law.")

    @Argument(help: "One seed, a range like 1..300, or a number of random seeds like 5000r.")
    var seeds = "1..300"

    @Flag(help: "Continue after a failure, and print one line for each.")
    var all = false

    @Flag(inversion: .prefixedNo, help: "Shrink a failing plan to the steps that it needs.")
    var shrink = true

    @Flag(help: "Print each step of a single seed, also if it passes.")
    var story = false

    @Flag(help: "Print the plan and run nothing.")
    var plan = false

    @Option(help: "Only these steps of a single seed's plan, by number, separated by commas.")
    var steps: String?

    @Flag(help: "Print each seed when it starts; with --jobs 1 the last one ended the program.")
    var verbose = false

    /// A world often waits for a thread of another queue, so two worlds run at once for each processor.
    @Option(name: .shortAndLong, help: "How many worlds are run at once.")
    var jobs = 2 * ProcessInfo.processInfo.activeProcessorCount

    private func simulation(_ seed: UInt64) -> Simulation {
        Simulation(seed: seed, steps: steps.map { Set($0.split(separator: ",").compactMap { Int($0) }) })
    }

    func run() async throws {
        guard let range = SeedRange(seeds) else { throw ValidationError("\(seeds) names no seeds") }
        if plan {
            for seed in range { for line in simulation(seed).planLines { print(line) } }
            return
        }
        SQLiteProcess.countNoMemory()
        // The temporary files of stores in memory stay in memory, too.
        if FileManager.default.isWritableFile(atPath: "/dev/shm") { setenv("TMPDIR", "/dev/shm", 0) }
        let clock = ContinuousClock()
        let start = clock.now
        var failures: [String: Int] = [:]
        var count = 0
        var last: UInt64 = 0
        await forEachOutcome(range) { seed, outcome in
            count += 1
            last = seed
            guard let failure = outcome.failure else { return true }
            failures[failure.law, default: 0] += 1
            print("seed \(seed): \(failure)")
            return all
        }
        let seconds = (clock.now - start) / .seconds(1)
        print("\(count) seeds, \(failures.values.reduce(0, +)) failed, \(Int(Double(count) / seconds)) seeds/s")
        for (law, number) in failures.sorted(by: { $0.key < $1.key }) { print("  \(law): \(number)") }
        if story || (!failures.isEmpty && !all) {
            print("")
            for line in await simulation(last).story(isShrunk: shrink) { print(line) }
            print("\nreplay it with: make simulate SEEDS=\(last)")
        }
        if !failures.isEmpty { throw ExitCode.failure }
    }
}

extension Simulate {
    /// Runs worlds in parallel until `body` returns false. Worlds share no data.
    private func forEachOutcome(_ seeds: SeedRange, _ body: (UInt64, Simulation.Outcome) -> Bool) async {
        await withTaskGroup(of: (UInt64, Simulation.Outcome).self) { group in
            let rest = seeds.makeIterator()
            func begin() {
                guard let seed = rest.next() else { return }
                if verbose { print("seed \(seed)") }
                let simulation = simulation(seed)
                group.addTask { (seed, await simulation.run()) }
            }
            for _ in 0..<max(1, jobs) { begin() }
            while let (seed, outcome) = await group.next() {
                // Worlds that have started run to their end and are not counted.
                guard body(seed, outcome) else { return }
                begin()
            }
        }
    }
}

/// The seeds to run.
struct SeedRange: Sequence {
    private let seeds: any Sequence<UInt64>

    init?(_ text: String) {
        if let seed = UInt64(text) {
            seeds = CollectionOfOne(seed)
        } else if text.hasSuffix("r"), let count = Int(text.dropLast()) {
            seeds = (0..<count).lazy.map { _ in UInt64.random(in: 0 ... .max) }
        } else {
            let bounds = text.split(separator: ".").map { UInt64($0) }
            guard bounds.count == 2, let first = bounds[0], let last = bounds[1], first <= last else { return nil }
            seeds = first...last
        }
    }

    func makeIterator() -> AnyIterator<UInt64> {
        func iterator(_ seeds: some Sequence<UInt64>) -> AnyIterator<UInt64> { AnyIterator(seeds.makeIterator()) }
        return iterator(seeds)
    }
}
