/// The condition of a header If-None-Match (RFC 9110, section 13.1.2).
struct IfNoneMatch {
    private let isAny: Bool
    private let tags: [Substring]

    /// A header that does not follow the grammar names no tag.
    init(_ header: String) {
        let text = header.trimmingPrefix(while: \.isHorizontalSpace)
        isAny = text.first == "*" && text.dropFirst().allSatisfy(\.isHorizontalSpace)
        tags = isAny ? [] : Self.tags(text) ?? []
    }

    /// Whether the sender has the content with this tag already, so that the answer is 304. Tags are compared weakly.
    /// - Parameter tag: nil if the content has no tag; then only `*` stands for it.
    func holds(_ tag: String?) -> Bool {
        isAny || tag.map { tags.contains(Self.opaque($0[...])) } ?? false
    }

    /// The quoted parts of a list of tags. They may contain commas, so the list cannot be divided at commas.
    private static func tags(_ text: Substring) -> [Substring]? {
        var tags: [Substring] = []
        var rest = text
        while true {
            // A list may have empty elements.
            rest = rest.drop { $0 == "," || $0.isHorizontalSpace }
            guard !rest.isEmpty else { return tags }
            rest = opaque(rest)
            guard rest.first == "\"", let end = rest.dropFirst().firstIndex(of: "\"") else { return nil }
            tags.append(rest[...end])
            rest = rest[rest.index(after: end)...].drop(while: \.isHorizontalSpace)
            guard rest.isEmpty || rest.first == "," else { return nil }
        }
    }

    /// A tag without the mark of weak ones.
    private static func opaque(_ tag: Substring) -> Substring {
        tag.hasPrefix("W/") ? tag.dropFirst(2) : tag
    }
}

extension Character {
    fileprivate var isHorizontalSpace: Bool { self == " " || self == "\t" }
}
