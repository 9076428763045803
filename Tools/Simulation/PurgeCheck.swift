/// Checks that a purge of a store's history deleted nothing that is still needed (law 10).
struct PurgeCheck {
    var before: Int64
    var now: Int64
    /// No reader was to limit it.
    var isForced: Bool
    var readers: [Int: Replica.Reader]
    /// Numbers of own transactions that the space has not ordered yet.
    var unpushed: [Int64] = []

    /// Readers whose positions were purged.
    var passed: [Int] {
        readers.filter { $0.value.number < now && !$0.value.isUnclear && !$0.value.isExpired }.keys.sorted()
    }

    /// The error in the purge; nil if there is none.
    var complaint: String? {
        if now < before { return "and before up to \(before)" }
        if isForced { return nil }
        if let number = passed.first, let reader = readers[number] { return "and reader \(number) is at \(reader.number)" }
        return unpushed.filter { $0 <= now }.min().map { "and its transaction \($0) is not pushed" }
    }
}

/// Checks a purge before a token (laws 8 and 10).
struct TokenPurgeCheck {
    var token: Int64
    /// The horizon before and after the purge.
    var before: Int64
    var now: Int64
    /// No reader was to limit it.
    var isForced: Bool
    /// The purge threw the error that the token has expired.
    var isExpired = false

    /// The error in the purge; nil if there is none.
    var complaint: (law: String, text: String)? {
        guard isExpired == (token < before) else {
            return ("law 8", "purged up to \(before), and token \(token) has\(isExpired ? "" : " not") expired")
        }
        let wanted = isExpired ? before : max(before, token - 1)
        if now <= wanted, now == wanted || !isForced { return nil }
        return ("law 10", "was to purge before token \(token), and did up to \(now)")
    }
}
