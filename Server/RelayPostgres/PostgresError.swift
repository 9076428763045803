internal import CPostgres
internal import Foundation
internal import RelayLog

/// An error of PostgreSQL or of the connection to it.
struct PostgresError: StorageFailure, CustomStringConvertible {
    /// The SQLSTATE of five characters; empty if the server did not answer.
    var state: String
    /// The first line of the server's message, without SQL and values.
    var message: String

    var description: String { state.isEmpty ? message : "\(message) (\(state))" }

    /// The connection cannot be used any more, and the result of a commit under way is unknown.
    var isLostConnection: Bool {
        // Connection failures, and a server that is shutting down.
        state.isEmpty || state.hasPrefix("08") || ["57P01", "57P02", "57P03"].contains(state)
    }

    /// The whole transaction can be tried again at once.
    var isTransient: Bool { isLostConnection || state == "40001" || state == "40P01" }

    /// Why the connection was lost. libpq's own messages name the server's address before the last "failed: ", and no log may have it.
    private var lossReason: String {
        guard state.isEmpty else { return description }
        let parts = message.components(separatedBy: "failed: ")
        if parts.count > 1, let reason = parts.last { return reason }
        return message.hasPrefix("server closed") ? message : "the connection was lost or cannot be made"
    }

    var logError: RelayLogError {
        switch state {
        case "53100": .diskFull
        case "53300", "55P03", "57014": .overloaded(retryAfterSeconds: 1)
        case _ where isLostConnection: .databaseAway(lossReason)
        case _ where isTransient: .overloaded(retryAfterSeconds: 1)
        default: .storage(description)
        }
    }
}
