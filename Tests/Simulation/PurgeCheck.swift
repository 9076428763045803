/// How far a store's history was purged, held against who still needs what (law 10).
struct PurgeCheck {
    var before: Int64
    var now: Int64
    /// Nobody was to hold it back.
    var isForced: Bool
    var readers: [Int: Replica.Reader]
    /// Numbers of own transactions that the space has not ordered yet.
    var unpushed: [Int64] = []

    /// Readers that the purge passed.
    var passed: [Int] {
        readers.filter { $0.value.number < now && !$0.value.isUnclear && !$0.value.isExpired }.keys.sorted()
    }

    /// What is wrong with it.
    var complaint: String? {
        if now < before { return "and before up to \(before)" }
        if isForced { return nil }
        if let number = passed.first, let reader = readers[number] { return "and reader \(number) is at \(reader.number)" }
        return unpushed.filter { $0 <= now }.min().map { "and its transaction \($0) is not pushed" }
    }
}
