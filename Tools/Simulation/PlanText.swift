import AnnalsCore
import AnnalsStore

extension Plan {
    /// The plan as readable lines.
    var lines: [String] {
        schema.statements.map { "schema: \($0)" } + schema.referenceSettings.map { "reference: \($0.text)" } + rows.map { "rows: \($0)" }
            + replicas.enumerated().map { "r\($0): \($1.text)" }
            + ["network: \(network.text)"] + [sizes?.text, snapshots?.text, isSealed ? "sealed" : nil].compactMap { $0 } + steps.map(\.text)
    }
}

extension ReplicaPlan {
    fileprivate var text: String {
        "\(isInFile ? "in a file" : "in memory"), clock \(clockOffset >= 0 ? "+" : "")\(clockOffset) ms, drift \(clockDrift) ‰"
    }
}

extension NetworkPlan {
    fileprivate var text: String { "\(RequestFaults.text(of: self)), delay \(delay) ms" }
}

extension SizePlan {
    fileprivate var text: String {
        func text(_ bytes: Int?) -> String { bytes.map { "\($0) bytes" } ?? "any size" }
        return "sizes: parts of \(partBytes) bytes, pieces of \(text(pieceBytes)), pages of \(text(pageBytes))"
    }
}

extension SnapshotPlan {
    fileprivate var text: String { "snapshots: every \(positions) positions, \(lease) ms to make one, \(kept) are kept" }
}

extension Step.RelayPurge {
    fileprivate var text: String {
        let who = isForced ? "whichever replica lacks it" : "but for whom was there in the last \(silence) ms"
        return "is at work while the relay drops the log, \(who)\(retired.map { ", r\($0) is retired" }.joined())"
    }
}

extension Step.HistoryPurge {
    fileprivate var text: String {
        switch self {
        case .token(let number): "before token \(number)"
        case .age(let age): "of \(age) ms ago"
        case .consumed: "that everyone has read"
        }
    }
}

extension Step {
    var text: String {
        "#\(number) +\(at) ms r\(replica) \(action.text)"
    }
}

extension PolicySetting {
    fileprivate var text: String {
        let scope = [table ?? "everything", column].compactMap { $0 }.joined(separator: ".")
        return "\(aspect) of \(scope): \(policy.isEmpty ? "as before" : policy)"
    }
}

extension Step.Action {
    fileprivate var text: String {
        switch self {
        case .write(let statements, let isTolerant): "writes\(isTolerant ? "" : ", all or nothing"): \(statements.joined(separator: "; "))"
        case .strangerWrites(let statements, let isTolerant, let checksParents):
            "stranger writes\(checksParents ? "" : " with foreign keys off")\(isTolerant ? "" : ", all or nothing"): \(statements.joined(separator: "; "))"
        case .strangerRebuilds(let rebuild, let statements, let isTolerant):
            "stranger \(rebuild.dropsOnlyTriggers ? "drops the triggers of" : "rebuilds") \(rebuild.table) and writes"
                + "\(isTolerant ? "" : ", all or nothing"): \(statements.joined(separator: "; "))"
        case .sync(let direction): "syncs, \(direction)"
        case .look: "is looked at"
        case .remember: "is remembered"
        case .crash(let point, let down): "crashes \(point), back after \(down) ms"
        case .cut(let time): "is cut off for \(time) ms"
        case .copy: "is copied"
        case .setPolicy(let setting, let isOverride): "sets\(isOverride ? " for itself" : "") \(setting.text)"
        case .resolve(let number, let side): "resolves conflict \(number), \(side)"
        case .newcomer: "sees a newcomer"
        case .backUpRelay: "is at work while the relay is backed up"
        case .restoreRelay: "is at work while the relay is restored from its backup"
        case .fault(let fault): fault.text
        case .purgeRelay(let purge): purge.text
        case .purgeHistory(let aim, let isForced): "drops history \(aim.text)\(isForced ? ", whichever reader needs it" : "")"
        case .setRetention(let age): "keeps history for \(age) ms"
        case .consume(let reader, let limit): "reader \(reader) takes \(limit) transactions"
        case .turnClock(let time): "its clock jumps by \(time) ms"
        }
    }
}
