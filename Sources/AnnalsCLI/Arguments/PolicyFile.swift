import AnnalsCore
import Foundation
import Yams

/// A file of policies; Config/policies.example.yaml documents its format.
enum PolicyFile {
    /// Throws `AnnalsError`: `fileNotFound`, or `configuration` with the line.
    static func read(_ path: String) throws -> [PolicySetting] {
        let file = SettingsFile(path: path, operation: "policy", example: "Config/policies.example.yaml")
        return try parse(try file.read(), file)
    }

    static func parse(_ root: Node?, _ file: SettingsFile) throws -> [PolicySetting] {
        guard let root else { return [] }
        var settings: [PolicySetting] = []
        for (name, node) in try file.pairs(root) {
            switch name {
            case "space": settings += try rules(node, of: nil, file)
            case "tables":
                for (table, node) in try file.pairs(node) { settings += try rules(node, of: table, file) }
            default: throw file.refused(node, "\(name) is not a setting: use space or tables")
            }
        }
        return settings
    }

    private static func rules(_ node: Node, of table: String?, _ file: SettingsFile) throws -> [PolicySetting] {
        try file.pairs(node).flatMap { name, node -> [PolicySetting] in
            if name == "columns", let table {
                return try file.pairs(node).map { column, node in
                    PolicySetting(table: table, column: column, aspect: .update, policy: try policy(node, file))
                }
            }
            guard let aspect = PolicyAspect(rawValue: name) else {
                throw file.refused(
                    node, "\(name) is not a setting: use update, delete, unique, key, whole, schema\(table == nil ? "" : " or columns")")
            }
            return [PolicySetting(table: table, aspect: aspect.aspect, policy: try policy(node, file))]
        }
    }

    private static func policy(_ node: Node, _ file: SettingsFile) throws -> String {
        let name = try file.text(node, "the name of a policy")
        return name == "default" ? "" : name
    }
}
