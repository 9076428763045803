import AnnalsCore
import AnnalsWire

// What the fixtures mean, as JSON. It is written from the inputs, never from decoded bytes, so that an error common to
// encoder and decoder cannot hide. 64-bit numbers are strings, for readers whose numbers are doubles.

/// A JSON value, printed with sorted keys.
indirect enum JSON {
    case null
    case bool(Bool)
    case number(Int)
    case string(String)
    case array([JSON])
    case object([String: JSON])

    static func big(_ number: some BinaryInteger) -> JSON { .string(String(number)) }
    static func hash(_ hash: UInt64) -> JSON {
        .string(Hexadecimal.encode((0..<8).map { UInt8(truncatingIfNeeded: hash >> (56 - 8 * $0)) }))
    }
    static func optional<T>(_ value: T?, _ transform: (T) -> JSON) -> JSON { value.map(transform) ?? .null }

    func text(indent: String = "") -> String {
        let deeper = indent + "  "
        switch self {
        case .null: return "null"
        case .bool(let bool): return bool ? "true" : "false"
        case .number(let number): return String(number)
        case .string(let string): return Self.quoted(string)
        case .array(let items):
            if items.isEmpty { return "[]" }
            return "[\n" + items.map { deeper + $0.text(indent: deeper) }.joined(separator: ",\n") + "\n\(indent)]"
        case .object(let members):
            if members.isEmpty { return "{}" }
            let lines = members.sorted { $0.key < $1.key }.map { "\(deeper)\(Self.quoted($0.key)): \($0.value.text(indent: deeper))" }
            return "{\n" + lines.joined(separator: ",\n") + "\n\(indent)}"
        }
    }

    private static func quoted(_ string: String) -> String {
        precondition(string.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0 != "\"" && $0 != "\\" }, "no fixture needs escapes")
        return "\"\(string)\""
    }
}

extension JSON {
    static func value(_ value: Value) -> JSON {
        switch value {
        case .null: .null
        case .integer(let integer): .object(["integer": .big(integer)])
        case .real(let real): .object(["real": .hash(real.bitPattern)])
        case .text(let text): .object(["text": .string(Hexadecimal.encode(text.bytes))])
        case .blob(let blob): .object(["blob": .string(Hexadecimal.encode(blob.bytes))])
        }
    }

    static func values(_ values: [Value]) -> JSON { .array(values.map(value)) }
    static func strings(_ strings: [String]) -> JSON { .array(strings.map { .string($0) }) }
    static func time(_ time: HybridTime) -> JSON { .object(["milliseconds": .big(time.milliseconds), "counter": .big(time.counter)]) }

    static func footprint(_ footprint: Footprint) -> JSON {
        .object([
            "rules": .number(Int(footprint.rules)), "keyID": .big(footprint.keyID), "everything": .bool(footprint.everything),
            "groups": .array(
                footprint.groups.map {
                    .object([
                        "table": .hash($0.table), "writesWhole": .bool($0.writesWhole), "readsWhole": .bool($0.readsWhole),
                        "writes": .array($0.writes.map(hash)), "reads": .array($0.reads.map(hash)),
                    ])
                }),
        ])
    }

    static func layout(_ layout: TableLayout) -> JSON {
        .object(["name": .string(layout.name), "columns": strings(layout.columns), "key": .array(layout.key.map { .number($0) })])
    }

    static func columnChanges(_ changes: [ColumnChange]) -> JSON {
        .array(changes.map { .object(["column": .number($0.column), "old": value($0.old), "new": value($0.new)]) })
    }

    static func change(_ marked: MarkedChange) -> JSON {
        let mark: JSON =
            switch marked.mark {
            case nil: .null
            case .merged(let key): .object(["merged": values(key)])
            case .setAside: .string("setAside")
            case .revived(let position, let changed):
                .object(["revived": .big(position.rawValue), "changed": columnChanges(changed)])
            }
        let age = JSON.big(UInt64(marked.age))
        return switch marked.change {
        case .insert(let row): .object(["insert": values(row), "mark": mark, "age": age])
        case .delete(let row): .object(["delete": values(row), "mark": mark, "age": age])
        case .update(let key, let columns):
            .object(["update": values(key), "columns": columnChanges(columns), "mark": mark, "age": age])
        }
    }

    static func journal(_ entry: JournalEntry) -> JSON {
        .object([
            "kind": .number(Int(entry.kind.rawValue)), "table": .string(entry.table), "key": values(entry.key),
            "columns": strings(entry.columns), "policy": .string(entry.policy), "base": optional(entry.base, values),
            "stored": optional(entry.stored, values), "incoming": optional(entry.incoming, values),
            "incomingWon": .bool(entry.winner == .incoming), "replica": optional(entry.storedReplica) { .string($0.description) },
            "time": optional(entry.storedTime, time), "position": optional(entry.storedPosition) { .big($0.rawValue) },
            "incomingTime": optional(entry.incomingTime, time),
        ])
    }

    static func schema(_ entry: SchemaEntry) -> JSON {
        .object([
            "version": .big(entry.version), "breaking": .bool(entry.isBreaking), "statements": strings(entry.statements),
            "tracked": .array(entry.tracked.map(layout)),
        ])
    }

    static func policy(_ setting: PolicySetting) -> JSON {
        .object([
            "aspect": .number(Int(setting.aspect.rawValue)), "table": optional(setting.table) { .string($0) },
            "column": optional(setting.column) { .string($0) }, "policy": .string(setting.policy),
        ])
    }

    static func reference(_ setting: ReferenceSetting) -> JSON {
        var members: [String: JSON] = ["table": .string(setting.table), "columns": strings(setting.columns)]
        switch setting.decision {
        case .undecided: members["decision"] = .number(0)
        case .none: members["decision"] = .number(1)
        case .refers(let target):
            members["decision"] = .number(target.condition == nil ? 2 : 3)
            members["parent"] = .string(target.table)
            members["parentColumns"] = strings(target.columns)
            members["onDelete"] = .number(Int(target.onDelete.rawValue))
            if let condition = target.condition { members["condition"] = .string(condition) }
        }
        return .object(members)
    }

    static func resolution(_ resolution: ConflictResolution) -> JSON {
        .object([
            "replica": .string(resolution.conflict.replica.description),
            "transaction": .string(resolution.conflict.transaction.description),
            "index": .number(resolution.conflict.index), "choice": .number(Int(resolution.choice.rawValue)),
        ])
    }

    static func info(_ info: TransactionInfo) -> JSON {
        .object([
            "id": .string(info.id.description), "time": time(info.time), "origin": .number(Int(info.origin.rawValue)),
            "author": optional(info.author) { .string($0) }, "replicaName": optional(info.replicaName) { .string($0) },
            "contextName": optional(info.contextName) { .string($0) },
        ])
    }

    static func page(_ page: Page) -> JSON {
        .object([
            "kind": .string("page"), "lineage": .string(page.lineage.description), "head": .big(page.head.rawValue),
            "horizon": .big(page.horizon.rawValue), "after": .big(page.after.rawValue), "isLast": .bool(page.isLast),
            "frames": .array(
                page.frames.map {
                    .object([
                        "first": .big($0.firstPosition.rawValue), "firstIndex": .number($0.firstIndex),
                        "acceptedCount": .number($0.acceptedCount), "receivedAt": .big($0.receivedAt),
                        "batch": .string(Hexadecimal.encode($0.batch)),
                    ])
                }),
        ])
    }

    static func seen(_ seen: SeenLog) -> JSON {
        .object(["position": .big(seen.position.rawValue), "digest": optional(seen.digest) { .string($0.description) }])
    }

    static func answer(_ answer: PushAnswer) -> JSON {
        let outcome: [String: JSON] =
            switch answer.outcome {
            case .accepted: ["name": .string("accepted")]
            case .stale(let position): ["name": .string("stale"), "at": optional(position) { .big($0.rawValue) }]
            case .identityConflict: ["name": .string("identityConflict")]
            case .gap: ["name": .string("gap")]
            case .logRolledBack: ["name": .string("logRolledBack")]
            case .wait(let milliseconds): ["name": .string("wait"), "milliseconds": .number(milliseconds)]
            case .partsMissing: ["name": .string("partsMissing")]
            }
        return .object([
            "kind": .string("answer"), "outcome": .object(outcome),
            "push": .object([
                "replica": .string(answer.push.replica.description), "firstCounter": .big(answer.push.firstCounter.rawValue),
                "lastDigest": .string(answer.push.lastDigest.description),
            ]),
            "lineage": .string(answer.lineage.description),
            "head": .big(answer.head.rawValue), "receivedAt": .big(answer.receivedAt),
            "positions": .array(answer.positions.map { .big($0.rawValue) }), "page": optional(answer.page, page),
        ])
    }
}
