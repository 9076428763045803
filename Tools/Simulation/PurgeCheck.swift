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

/// What a purge before a token did (laws 8 and 10).
struct TokenPurgeCheck {
    var token: Int64
    /// How far history was purged before, and is now.
    var before: Int64
    var now: Int64
    /// Where a table's history begins anew: what lies before can be read by nobody, and goes with every purge.
    var gap: Int64 = 0
    /// Nobody was to hold it back.
    var isForced: Bool
    /// It was told that the token has expired.
    var isExpired = false

    /// What is wrong with it.
    var complaint: (law: String, text: String)? {
        let oldest = max(before, gap)
        guard isExpired == (token < oldest) else {
            return ("law 8", "purged up to \(before), and token \(token) has\(isExpired ? "" : " not") expired")
        }
        let wanted = isExpired ? before : max(oldest, token - 1)
        if now <= wanted, now == wanted || !isForced { return nil }
        return ("law 10", "was to purge before token \(token), and did up to \(now)")
    }
}
