import AnnalsSQLite

/// A column's name, and the table after which it may be named.
struct ReferenceName {
    enum Match { case exact, part }

    private let words: [String]
    /// Without `id` and the like.
    private let base: [String]
    /// Whether it ends or begins with `id` and the like.
    let hasSuffix: Bool
    /// Whether the name ends like that of a key, as `nid` does.
    let mayBeReference: Bool

    private static let marks: Set<String> = ["id", "fk", "uuid", "guid", "ref"]

    init(_ column: String) {
        words = Self.words(column)
        if words.count > 1, Self.marks.contains(words[words.count - 1]) {
            (base, hasSuffix) = (Array(words.dropLast()), true)
        } else if words.count > 1, Self.marks.contains(words[0]) {
            (base, hasSuffix) = (Array(words.dropFirst()), true)
        } else {
            (base, hasSuffix) = (words, false)
        }
        mayBeReference = hasSuffix || words.last.map { $0.hasSuffix("id") } ?? false
    }

    /// nil if the column is not named after the table.
    func match(_ table: String, key: String, isSelf: Bool) -> Match? {
        // The parent's key has this very name, and not just `id`.
        if hasSuffix, !isSelf, Self.words(key) == words { return .exact }
        if isSelf { return base == ["parent"] ? .part : nil }
        let (own, theirs) = (Self.singular(base), Self.singular(Self.words(table)))
        if own.joined() == theirs.joined() { return .exact }
        // `book_id` may name `library_book`, and `home_team_id` a `team`.
        if hasSuffix, own.count < theirs.count, Array(theirs.suffix(own.count)) == own { return .part }
        if hasSuffix, theirs.count < own.count, Array(own.suffix(theirs.count)) == theirs { return .part }
        return nil
    }

    /// Texts of which a table that matches has at least one, besides a column of the table itself. See `texts(of:key:)`.
    var texts: [String] {
        let own = Self.singular(base)
        guard hasSuffix else { return [own.joined()] }
        return [own.joined(), Self.text(ofLast: own), Self.text(ofKey: words)]
    }

    /// The texts by which a column may match a table. With them, not each column is compared with each table.
    static func texts(of table: String, key: String) -> [String] {
        let theirs = singular(words(table))
        return [theirs.joined(), text(ofLast: theirs), text(ofKey: words(key))]
    }

    private static func text(ofLast words: [String]) -> String { "… \(words.last ?? "")" }

    private static func text(ofKey words: [String]) -> String { "key \(words.joined(separator: " "))" }

    /// `album_id`, `albumId`, `AlbumID` and `ALBUM_ID` are all `album` and `id`.
    static func words(_ name: String) -> [String] {
        var words: [String] = []
        var word = ""
        var last: Character = "_"
        for character in name {
            let beginsWord = character.isUppercase && last.isLowercase
            if !character.isLetter && !character.isNumber || beginsWord {
                if !word.isEmpty { words.append(word) }
                word = ""
            }
            if character.isLetter || character.isNumber { word += character.lowercased() }
            last = character
        }
        return word.isEmpty ? words : words + [word]
    }

    private static func singular(_ words: [String]) -> [String] {
        words.dropLast() + words.suffix(1).map(singular)
    }

    private static let irregular = ["people": "person", "children": "child", "men": "man", "women": "woman", "mice": "mouse"]

    static func singular(_ word: String) -> String {
        if let known = irregular[word] { return known }
        if word.hasSuffix("ies"), word.count > 4 { return word.dropLast(3) + "y" }
        for ending in ["sses", "xes", "zes", "ches", "shes"] where word.hasSuffix(ending) { return String(word.dropLast(2)) }
        return word.hasSuffix("s") && !word.hasSuffix("ss") && word.count > 2 ? String(word.dropLast()) : word
    }
}
