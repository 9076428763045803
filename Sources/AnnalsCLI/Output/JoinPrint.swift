import AnnalsCore
import AnnalsStore
import AnnalsSync

/// Prints the result of a join, or of its dry run.
enum JoinPrint {
    static func json(_ store: String, _ space: SpaceName, _ prospect: Joining.Prospect) -> JSON {
        let head = JSON.object(["store": .text(store), "space": .text(space.description), "dryRun": .bool(true)])
        switch prospect {
        case .new: return head.adding(["exists": .bool(false), "equal": .null, "tables": .array([])])
        case .existing(let differences):
            let tables = differences.tables.map { table in
                JSON.object([
                    "table": .text(table.name), "equal": .integer(table.equal), "onlyHere": .integer(table.onlyHere),
                    "onlyThere": .integer(table.onlyThere), "differing": .integer(table.differing),
                ])
            }
            return head.adding([
                "exists": .bool(true), "equal": .bool(differences.areEqual), "tables": .array(tables),
                "lacking": .array(differences.missingSchema.map { .text($0) }), "added": .array(differences.added.map { .text($0) }),
            ])
        }
    }

    static func json(_ outcome: Joining.Outcome) -> JSON {
        switch outcome {
        case .created(let position): .object(["outcome": .text("created"), "position": .integer(position.rawValue)])
        case .recognised(let position): .object(["outcome": .text("recognised"), "position": .integer(position.rawValue)])
        case .merged(let position, let summary):
            .object([
                "outcome": .text("merged"), "position": .integer(position.rawValue), "differing": .integer(summary.differing),
                "takenIn": .integer(summary.takenIn), "conflicts": .integer(summary.conflicts),
            ])
        }
    }

    static func words(_ outcome: Joining.Outcome) -> String {
        switch outcome {
        case .created(let position): "at position \(position): the space was created from its rows"
        case .recognised(let position): "at position \(position): the space has the same rows"
        case .merged(let position, let summary):
            "at position \(position): \(Count.of(summary.differing, "row")) of this store differed, "
                + "\(Count.of(summary.takenIn, "row")) received, \(Count.of(summary.conflicts, "conflict"))"
        }
    }

    static func table(_ differences: RowDifferences) -> Table {
        var table = Table(["table", "equal", "only here", "only there", "differ"])
        for row in differences.tables {
            table.append([.init(row.name), .init(row.equal), .init(row.onlyHere), .init(row.onlyThere), .init(row.differing)])
        }
        return table
    }
}
