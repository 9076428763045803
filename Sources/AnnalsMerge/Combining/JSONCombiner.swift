import AnnalsCore

/// Combines two JSON objects key by key. A key that one side changed gets its value. Objects that both sides changed
/// are combined in the same way. If both sides changed another value differently, the texts cannot be combined.
///
/// Stored keys keep their order, and new keys follow. If the base is missing or NULL, it counts as the empty object.
enum JSONCombiner {
    static func combine(base: Value?, stored: Value, incoming: Value) -> Value? {
        guard let base = members(base), case .object(let stored)? = JSONReader.read(stored),
            case .object(let incoming)? = JSONReader.read(incoming), let combined = combine(base, stored, incoming)
        else { return nil }
        return .text(ByteString(JSONValue.object(combined).text))
    }

    private static func members(_ base: Value?) -> [JSONValue.Member]? {
        guard let base, !base.isNull else { return [] }
        guard case .object(let members)? = JSONReader.read(base) else { return nil }
        return members
    }

    private static func combine(
        _ base: [JSONValue.Member], _ stored: [JSONValue.Member], _ incoming: [JSONValue.Member]
    ) -> [JSONValue.Member]? {
        let before = values(base)
        let here = values(stored)
        let wanted = values(incoming)
        var result: [JSONValue.Member] = []
        for key in stored.map(\.key) + incoming.map(\.key).filter({ here[$0] == nil }) {
            switch outcome(before[key], here[key], wanted[key]) {
            case .keep(let value): result.append(.init(key: key, value: value))
            case .remove: continue
            case .conflict: return nil
            }
        }
        return result
    }

    private enum Outcome {
        case keep(JSONValue)
        case remove
        case conflict
    }

    private static func outcome(_ base: JSONValue?, _ stored: JSONValue?, _ incoming: JSONValue?) -> Outcome {
        if stored == incoming || incoming == base { return stored.map(Outcome.keep) ?? .remove }
        if stored == base { return incoming.map(Outcome.keep) ?? .remove }
        guard case .object(let stored)? = stored, case .object(let incoming)? = incoming else { return .conflict }
        var before: [JSONValue.Member] = []
        if case .object(let members)? = base { before = members }
        return combine(before, stored, incoming).map { .keep(.object($0)) } ?? .conflict
    }

    private static func values(_ members: [JSONValue.Member]) -> [[UInt8]: JSONValue] {
        Dictionary(members.map { ($0.key, $0.value) }, uniquingKeysWith: { first, _ in first })
    }
}
