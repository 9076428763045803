package import AnnalsCore
import AnnalsSQLite
import AnnalsWire

/// The reason why a page cannot be applied. The store stays unchanged.
package enum ApplyError: Error {
    case outOfOrder(Position)
    case pushUnderWay
    /// A partial rebase broke something that no footprint shows: see `RebaseSet`.
    case partialRebaseInvalid
    /// The page has a schema entry that was not tried before.
    case untriedSchema
    /// A policy names a closure that the program does not have.
    case missingResolver(String, table: String)
}

extension ApplyError: TranslatableError {
    package func annalsError(operation: String, path: String) -> AnnalsError {
        switch self {
        case .outOfOrder(let position):
            return AnnalsError(.corruptBatch, operation: operation, "the relay sent position \(position) out of order")
        case .missingResolver(let name, let table):
            return AnnalsError(
                .configuration, operation: operation,
                "the policy of \(table) is custom: \(name), but this program has no closure with this name",
                hint: "Set another policy for the table, for the space or for this replica only; nothing was changed")
        case .pushUnderWay:
            return AnnalsError(.busy, operation: operation, "a push has no answer yet", isRetryable: true)
        case .partialRebaseInvalid:
            return AnnalsError(.defect, operation: operation, "internal error: a full rebase was incomplete")
        case .untriedSchema:
            return AnnalsError(.defect, operation: operation, "internal error: a schema entry was not tried", underlying: self)
        }
    }
}
