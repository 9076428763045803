/// The part of a file that a Range header requests (RFC 9110, section 14). A request for several parts gets the whole
/// file, which the RFC allows.
enum ByteRange: Hashable {
    case whole
    case part(Range<Int64>)
    case notSatisfiable

    init(header: String?, byteCount: Int64) {
        guard let header, header.hasPrefix("bytes="), !header.contains(",") else {
            self = .whole
            return
        }
        let ends = header.dropFirst("bytes=".count).split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard ends.count == 2 else {
            self = .whole
            return
        }
        switch (Self.number(ends[0]), Self.number(ends[1])) {
        case (let first?, let last?) where first <= last && first < byteCount: self = .part(first..<min(last, byteCount - 1) + 1)
        case (let first?, nil) where ends[1].isEmpty && first < byteCount: self = .part(first..<byteCount)
        case (nil, let suffix?) where ends[0].isEmpty && suffix > 0 && byteCount > 0: self = .part(max(0, byteCount - suffix)..<byteCount)
        case (let first?, let last) where first >= byteCount && (last != nil || ends[1].isEmpty) && first <= last ?? .max:
            self = .notSatisfiable
        case (nil, _?) where ends[0].isEmpty: self = .notSatisfiable
        default: self = .whole
        }
    }

    private static func number(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int64(text)
    }
}
