/// What a demonstration does on both sides while they are apart, and where to look afterwards.
struct DemoPlan: Sendable {
    /// A query whose rows tell something, the same on both sides.
    struct Look: Sendable {
        var title: String
        var sql: String
    }

    /// Statements as another program would run them, in one transaction each side.
    var shop: [String]
    var laptop: [String]
    /// The first one is also asked of the earlier moment.
    var looks: [Look]
}
