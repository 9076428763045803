import AnnalsCore
import RelayLog

/// Prints tokens without their secrets.
enum RelayTokenReport {
    static func json(_ record: TokenRecord) -> JSON {
        .object([
            "id": .integer(record.id), "label": .text(record.label), "space": .text(record.space?.description),
            "scope": .text(record.scope.rawValue), "created": .text(Timestamp.text(record.created)),
            "renews": record.holder.map { .integer($0) } ?? .null,
            "expires": .text(record.expires.map { Timestamp.text($0) }), "revoked": .text(record.revoked.map { Timestamp.text($0) }),
        ])
    }

    /// - Parameter now: milliseconds since 1970.
    static func table(_ records: [TokenRecord], now: Int64) -> Table {
        var table = Table(["id", "label", "space", "scope", "created", "valid"])
        for record in records {
            let isOver = record.revoked != nil || record.expires.map { $0 <= now } == true
            let valid =
                record.revoked.map { "revoked \(Timestamp.text($0))" }
                ?? record.expires.map { "\($0 <= now ? "expired" : "until") \(Timestamp.text($0))" } ?? "until revoked"
            table.append([
                .init(record.id), .init(record.label), .init(record.space?.description ?? "all"), .init(record.scope.rawValue),
                .init(Timestamp.text(record.created)), .init(valid, colour: isOver ? .dim : nil),
            ])
        }
        return table
    }
}
