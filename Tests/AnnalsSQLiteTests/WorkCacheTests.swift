import Testing

@testable import AnnalsSQLite

@Suite struct WorkCacheTests {
    @Test func `the size follows the free memory, between two limits`() {
        let mebibyte: Int64 = 1 << 20
        #expect(WorkCache.size(spare: nil, set: nil) == WorkCache.least)
        #expect(WorkCache.size(spare: 0, set: nil) == WorkCache.least)
        #expect(WorkCache.size(spare: 2_048 * mebibyte, set: nil) == 32 << 10)
        #expect(WorkCache.size(spare: .max, set: nil) == WorkCache.most)
        #expect(WorkCache.size(spare: 2_048 * mebibyte, set: 8) == 8 << 10)
        for set in [Int.min, -1, 0, 1] { #expect(WorkCache.size(spare: .max, set: set) == WorkCache.least) }
        #expect(WorkCache.size(spare: .max, set: .max) >= WorkCache.least)
    }

    @Test func `only one piece of work of a process has the large cache`() {
        // Other suites of the process may have it.
        let inner = WorkCache.with { _ in WorkCache.with { $0 } }
        #expect(inner == WorkCache.least)
    }
}
