import AnnalsCore

/// A JSON array as a set: what either side added is in it, what either side removed is not.
///
/// Elements are the same when they are equal as JSON, so 1 and 1.0 are one element. Stored elements keep their order, new
/// ones come after them. Without a base, or with a NULL one, both sides only added.
enum UnionCombiner {
    static func combine(base: Value?, stored: Value, incoming: Value) -> Value? {
        guard let base = elements(base), case .array(let stored)? = JSONReader.read(stored),
            case .array(let incoming)? = JSONReader.read(incoming)
        else { return nil }
        let before = Set(base)
        let wanted = Set(incoming)
        var result: [JSONValue] = []
        var present: Set<JSONValue> = []
        for element in stored where !before.contains(element) || wanted.contains(element) {
            if present.insert(element).inserted { result.append(element) }
        }
        for element in incoming where !before.contains(element) {
            if present.insert(element).inserted { result.append(element) }
        }
        return .text(ByteString(JSONValue.array(result).text))
    }

    private static func elements(_ base: Value?) -> [JSONValue]? {
        guard let base, !base.isNull else { return [] }
        guard case .array(let elements)? = JSONReader.read(base) else { return nil }
        return elements
    }
}
