import AnnalsCore

/// Combines two JSON arrays as sets. The result has the elements that either side added, without those that either side
/// removed.
///
/// Elements are the same if they are equal as JSON, so 1 and 1.0 are one element. Stored elements keep their order, and
/// new ones follow. If the base is missing or NULL, both sides only added elements.
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
