import AnnalsMerge
import SeededRandom
import Testing

/// Merge rules 19 and 30 under random work. `ANNALS_SEED=n swift test --filter PlannedWorldTests` replays one seed.
@Suite struct PlannedWorldTests {
    @Test func `Rule 30: whatever three authors wrote, attempts end, and keys, unique values and references are intact`() {
        Seeds.each(60) { seed, random in
            var world = PlannedWorld(&random)
            do {
                for _ in 0..<60 { try world.step(&random) }
                try world.settle()
            } catch {
                Issue.record("seed \(seed): \(error); ANNALS_SEED=\(seed) replays it")
            }
        }
    }
}
