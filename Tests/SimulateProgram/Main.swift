import Simulation

@main
struct Main {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        let seeds = Self.seeds(arguments.first ?? "1..300")
        let clock = ContinuousClock()
        let start = clock.now
        var failures = 0
        for seed in seeds {
            let outcome = try await Simulation(seed: seed).run()
            guard let failure = outcome.failure else { continue }
            failures += 1
            print("seed \(seed): \(failure)")
            if seeds.count == 1 { for line in try await Simulation(seed: seed).story() { print(line) } }
        }
        let elapsed = (clock.now - start) / .seconds(1)
        print("\(seeds.count) seeds, \(failures) failures, \(Double(seeds.count) / elapsed) seeds/s")
    }

    static func seeds(_ text: String) -> ClosedRange<UInt64> {
        let parts = text.split(separator: ".").compactMap { UInt64($0) }
        if parts.count == 2 { return parts[0]...parts[1] }
        return (parts.first ?? 1)...(parts.first ?? 1)
    }
}
