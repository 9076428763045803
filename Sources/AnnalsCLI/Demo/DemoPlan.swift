/// The statements that a demonstration runs on both sides while they are offline, and the queries that show the result.
struct DemoPlan: Sendable {
    /// A query whose rows both sides print.
    struct Look: Sendable {
        var title: String
        var sql: String
    }

    /// Statements that another program would run, in one transaction on each side.
    var shop: [String]
    var laptop: [String]
    /// The first query also runs on the earlier state.
    var looks: [Look]
}
