internal import CPostgres
internal import RelayLog

/// What PostgreSQL, or the way to it, refused.
struct PostgresError: StorageFailure, CustomStringConvertible {
    /// Five characters of the SQL standard; empty where the server did not answer.
    var state: String
    /// The server's own first line: no SQL, no values.
    var message: String

    var description: String { state.isEmpty ? message : "\(message) (\(state))" }

    /// Nobody knows whether a commit under way took place; the connection is of no more use.
    var isLostConnection: Bool {
        // Connection failures, and a server that was told to stop.
        state.isEmpty || state.hasPrefix("08") || ["57P01", "57P02", "57P03"].contains(state)
    }

    /// The whole transaction may be tried again at once.
    var isTransient: Bool { isLostConnection || state == "40001" || state == "40P01" }

    var logError: RelayLogError {
        switch state {
        case "53100": .diskFull
        case "53300", "55P03", "57014": .overloaded(retryAfterSeconds: 1)
        case _ where isTransient: .overloaded(retryAfterSeconds: 1)
        default: .storage(description)
        }
    }
}
