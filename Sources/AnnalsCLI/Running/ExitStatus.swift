import AnnalsCore

/// The exit status of `annals`. The numbers are those of sysexits.h, and are a contract.
enum ExitStatus: Int32, CaseIterable, Sendable {
    case done = 0
    /// A check ran and found something.
    case checkFailed = 1
    case usage = 64
    /// The data is not what it must be.
    case data = 65
    case noInput = 66
    case relayUnreachable = 69
    /// A defect of annals itself.
    case defect = 70
    case cannotCreate = 73
    case tryAgain = 75
    /// Signed statements of replicas prove that the relay showed different logs, or left entries out.
    case relayInconsistent = 76
    case notPermitted = 77
    case configuration = 78
    /// Stopped by Ctrl-C before the command was complete.
    case interrupted = 130
    case terminated = 143

    /// The exit status of each error code, in one table.
    init(_ code: AnnalsError.Code) {
        self =
            switch code {
            case .usage: .usage
            case .notADatabase, .newerFormat, .notTracked, .schemaRefused, .constraint, .conflict, .validation, .tokenExpired,
                .tokenUnknown, .corruptBatch,
                .tooLarge, .diverged, .badFootprint, .notJoined, .alreadyJoined, .rowsDiffer, .relayRolledBack, .expired,
                .waitingForMigration, .rowNotFound:
                .data
            case .fileNotFound, .spaceNotFound, .consumerUnknown: .noInput
            case .relayUnreachable, .notARelay: .relayUnreachable
            case .defect: .defect
            case .cannotCreate, .diskFull, .spaceExists: .cannotCreate
            case .relayInconsistent: .relayInconsistent
            case .busy, .relayOverloaded, .spaceUnfinished: .tryAgain
            case .readOnly, .notPermitted, .quarantined: .notPermitted
            case .configuration, .missingKey: .configuration
            case .cancelled: .interrupted
            }
    }
}

/// Thrown by a check that found something. The findings are already printed.
struct CheckFailed: Error {}
