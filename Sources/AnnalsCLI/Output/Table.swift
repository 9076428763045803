import AnnalsCore

/// A table of text in aligned columns.
struct Table {
    enum Alignment: Sendable { case left, right }

    struct Cell: Sendable {
        var text: String
        var alignment: Alignment
        var colour: Style.Colour?

        init(_ text: String, _ alignment: Alignment = .left, colour: Style.Colour? = nil) {
            self.text = PrintableText.of(text)
            self.alignment = alignment
            self.colour = colour
        }

        init(_ number: some BinaryInteger) {
            self.init(String(number), .right)
        }

        /// A SQLite value: numbers are right-aligned; NULL and blobs look different from text.
        init(_ value: Value) {
            switch value {
            case .null: self.init("NULL", colour: .dim)
            case .integer(let integer): self.init(integer)
            case .real(let real): self.init(real.description, .right)
            case .text(let bytes):
                if let text = bytes.string { self.init(text) } else { self.init("(text, not UTF-8, \(bytes.count) bytes)", colour: .dim) }
            case .blob(let bytes): self.init("(blob, \(bytes.count) bytes)", colour: .dim)
            }
        }
    }

    private let titles: [String]
    private var rows: [[Cell]] = []
    /// Prepended to each line.
    var indent = ""
    /// Longer cells are cut. JSON output has the whole value.
    var widestCell = 48

    init(_ titles: [String]) {
        self.titles = titles.map(PrintableText.of)
    }

    var isEmpty: Bool { rows.isEmpty }

    mutating func append(_ row: [Cell]) {
        precondition(row.count == titles.count, "a row has a cell for each column")
        rows.append(row)
    }

    /// The lines, with a rule below the titles and without trailing blanks.
    func lines(_ style: Style) -> [String] {
        let cells = rows.map { $0.map { cell in with(cell) { $0.text = PrintableText.cut($0.text, to: widestCell) } } }
        let widths = titles.indices.map { column in
            cells.reduce(TextWidth.of(titles[column])) { max($0, TextWidth.of($1[column].text)) }
        }
        let alignments = titles.indices.map { column in
            !cells.isEmpty && cells.allSatisfy { $0[column].alignment == .right || $0[column].text == "NULL" } ? Alignment.right : .left
        }
        let heads = titles.indices.map { Cell(titles[$0], alignments[$0], colour: .bold) }
        let rule = titles.indices.map { Cell(String(repeating: "─", count: widths[$0]), colour: .dim) }
        return ([heads, rule] + cells).map { row in
            let last = row.lastIndex { !$0.text.isEmpty } ?? 0
            return indent
                + row.indices.prefix(through: last).map { column in
                    pad(row[column], to: widths[column], alignments[column], isLast: column == last, style)
                }.joined(separator: "  ")
        }
    }

    private func pad(_ cell: Cell, to width: Int, _ alignment: Alignment, isLast: Bool, _ style: Style) -> String {
        let blanks = String(repeating: " ", count: max(0, width - TextWidth.of(cell.text)))
        let text = cell.colour.map { style($0, cell.text) } ?? cell.text
        if alignment == .right { return blanks + text }
        return isLast ? text : text + blanks
    }
}

/// A changed copy of a value.
func with<Subject>(_ subject: Subject, _ change: (inout Subject) -> Void) -> Subject {
    var copy = subject
    change(&copy)
    return copy
}
