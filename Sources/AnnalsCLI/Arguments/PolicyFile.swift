import AnnalsCore
import Foundation
import Yams

/// A file of policies; Config/policies.example.yaml documents its form.
enum PolicyFile {
    /// Throws `AnnalsError`: `fileNotFound`, or `configuration` with the line.
    static func read(_ path: String) throws -> [PolicySetting] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw AnnalsError(.fileNotFound, operation: "policy", "there is no file \(path)")
        }
        guard let text = String(validating: data, as: UTF8.self) else { throw refused(path, nil, "it is not text") }
        return try parse(text, path)
    }

    static func parse(_ text: String, _ path: String) throws -> [PolicySetting] {
        let root: Node?
        do {
            root = try Yams.compose(yaml: text)
        } catch let error as YamlError {
            throw refused(path, nil, "it is not YAML (\(String(describing: error).replacing("\n", with: " ")))")
        }
        guard let root else { return [] }
        var settings: [PolicySetting] = []
        for (name, node) in try pairs(root, path) {
            switch name {
            case "space": settings += try rules(node, of: nil, path)
            case "tables":
                for (table, node) in try pairs(node, path) { settings += try rules(node, of: table, path) }
            default: throw refused(path, node, "\(name) is neither space nor tables")
            }
        }
        return settings
    }

    private static func rules(_ node: Node, of table: String?, _ path: String) throws -> [PolicySetting] {
        try pairs(node, path).flatMap { name, node -> [PolicySetting] in
            if name == "columns", let table {
                return try pairs(node, path).map { column, node in
                    PolicySetting(table: table, column: column, aspect: .update, policy: try policy(node, path))
                }
            }
            guard let aspect = PolicyAspect(rawValue: name) else {
                throw refused(path, node, "\(name) is not update, delete, unique, key, whole\(table == nil ? "" : " or columns")")
            }
            return [PolicySetting(table: table, aspect: aspect.aspect, policy: try policy(node, path))]
        }
    }

    private static func policy(_ node: Node, _ path: String) throws -> String {
        guard case .scalar(let scalar) = node else { throw refused(path, node, "here stands the name of a policy") }
        let name = scalar.string.trimmingCharacters(in: .whitespacesAndNewlines)
        return name == "default" ? "" : name
    }

    /// Names and what they stand for, as written: `yes` and `no` stay words. A name that stands twice is refused.
    private static func pairs(_ node: Node, _ path: String) throws -> [(String, Node)] {
        guard case .mapping(let mapping) = node else { throw refused(path, node, "here stand names and what they mean") }
        var seen: Set<String> = []
        return try mapping.map { key, value in
            guard case .scalar(let name) = key else { throw refused(path, key, "a name is expected") }
            guard seen.insert(name.string).inserted else { throw refused(path, key, "\(name.string) stands twice") }
            return (name.string, value)
        }
    }

    private static func refused(_ path: String, _ node: Node?, _ reason: String) -> AnnalsError {
        let line = node?.mark.map { ", line \($0.line)" } ?? ""
        return AnnalsError(
            .configuration, operation: "policy", "\(path)\(line): \(reason)", hint: "Config/policies.example.yaml shows the form")
    }
}
