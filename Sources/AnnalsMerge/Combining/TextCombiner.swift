import AnnalsCore

/// A three-way merge by lines, as in diff3. Lines that neither side changed align the texts. Between two such runs, the
/// result has the lines of the side that changed something.
///
/// If both sides changed the same lines differently, or if there is no base, the texts cannot be combined.
enum TextCombiner {
    private typealias Line = ArraySlice<UInt8>

    static func combine(base: Value?, stored: Value, incoming: Value) -> Value? {
        guard let base, let base = lines(base), let stored = lines(stored), let incoming = lines(incoming) else { return nil }
        guard let kept = matches(base, stored), let wanted = matches(base, incoming) else { return nil }
        guard let merged = merge(Texts(base: base, stored: stored, incoming: incoming), kept, wanted) else { return nil }
        return .text(ByteString(merged))
    }

    private struct Texts {
        var base: [Line]
        var stored: [Line]
        var incoming: [Line]
    }

    /// The lines, each with its newline. So a last line differs if only its newline was added or removed.
    private static func lines(_ value: Value) -> [Line]? {
        guard case .text(let text) = value, text.count <= MergeLimits.combinedBytes else { return nil }
        var lines: [Line] = []
        var start = 0
        for (index, byte) in text.bytes.enumerated() where byte == UInt8(ascii: "\n") {
            lines.append(text.bytes[start...index])
            start = index + 1
        }
        if start < text.count { lines.append(text.bytes[start...]) }
        return lines
    }

    /// For each line of the base, the index of the same line in the other text, ascending. nil for a deleted line.
    private static func matches(_ base: [Line], _ other: [Line]) -> [Int?]? {
        let common = min(base.count, other.count)
        let head = (0..<common).first { base[$0] != other[$0] } ?? common
        let rest = common - head
        let tail = (0..<rest).first { base[base.count - 1 - $0] != other[other.count - 1 - $0] } ?? rest
        let (middle, otherMiddle) = (base[head..<base.count - tail], other[head..<other.count - tail])
        guard middle.count <= MergeLimits.differingLines, otherMiddle.count <= MergeLimits.differingLines else { return nil }
        var matches: [Int?] = Array(0..<head)
        var removed: Set<Int> = []
        var inserted: Set<Int> = []
        for change in Array(otherMiddle).difference(from: Array(middle)) {
            switch change {
            case .remove(let offset, _, _): removed.insert(offset)
            case .insert(let offset, _, _): inserted.insert(offset)
            }
        }
        var place = 0
        for offset in 0..<middle.count {
            if removed.contains(offset) {
                matches.append(nil)
                continue
            }
            while inserted.contains(place) { place += 1 }
            matches.append(head + place)
            place += 1
        }
        return matches + (0..<tail).map { other.count - tail + $0 }
    }

    private static func merge(_ texts: Texts, _ kept: [Int?], _ wanted: [Int?]) -> [UInt8]? {
        var merged: [UInt8] = []
        var (base, stored, incoming) = (0, 0, 0)
        // The end of the text counts as a line that neither side changed.
        for line in 0...texts.base.count {
            let isEnd = line == texts.base.count
            guard let keptLine = isEnd ? texts.stored.count : kept[line], let wantedLine = isEnd ? texts.incoming.count : wanted[line]
            else {
                continue
            }
            let before = texts.base[base..<line]
            let here = texts.stored[stored..<keptLine]
            let there = texts.incoming[incoming..<wantedLine]
            if here.elementsEqual(there) || there.elementsEqual(before) {
                here.forEach { merged += $0 }
            } else if here.elementsEqual(before) {
                there.forEach { merged += $0 }
            } else {
                return nil
            }
            if !isEnd { merged += texts.base[line] }
            (base, stored, incoming) = (line + 1, keptLine + 1, wantedLine + 1)
        }
        return merged
    }
}
