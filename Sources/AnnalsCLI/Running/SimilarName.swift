/// Finds the name that somebody probably meant.
enum SimilarName {
    /// The nearest of the names, if at most two letters differ; nil if none is near.
    static func of(_ text: String, among names: [String]) -> String? {
        let near = names.map { ($0, distance(text, $0)) }.filter { $0.1 <= min(2, text.count / 2) }
        return near.min { $0.1 < $1.1 }?.0
    }

    /// The number of letters to insert, delete, replace or exchange with a neighbour.
    ///
    /// Source: Damerau, "A technique for computer detection and correction of spelling errors", 1964.
    private static func distance(_ left: String, _ right: String) -> Int {
        let (a, b) = (Array(left), Array(right))
        var rows = [Array(0...b.count)]
        for i in a.indices {
            var row = [i + 1]
            for j in b.indices {
                var best = min(rows[i][j + 1] + 1, row[j] + 1, rows[i][j] + (a[i] == b[j] ? 0 : 1))
                if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { best = min(best, rows[i - 1][j - 1] + 1) }
                row.append(best)
            }
            rows.append(row)
        }
        return rows[a.count][b.count]
    }
}
