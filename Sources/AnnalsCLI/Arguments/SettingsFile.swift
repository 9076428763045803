import AnnalsCore
import Foundation
import Yams

/// A YAML settings file. Errors have the line of the setting.
struct SettingsFile {
    let path: String
    let operation: String
    /// The project's file that shows the format.
    let example: String

    /// nil if the file is empty. Throws `AnnalsError`: `fileNotFound` or `configuration`.
    func read() throws -> Node? {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw AnnalsError(.fileNotFound, operation: operation, "there is no file \(path)")
        }
        guard let text = String(validating: data, as: UTF8.self) else { throw refused(nil, "the file is not UTF-8 text") }
        do {
            return try Yams.compose(yaml: text)
        } catch let error as YamlError {
            throw refused(nil, "the file is not valid YAML (\(String(describing: error).replacing("\n", with: " ")))")
        }
    }

    /// The names of a mapping with their values as written: `yes` and `no` remain text. A duplicate name is refused.
    func pairs(_ node: Node) throws -> [(String, Node)] {
        guard case .mapping(let mapping) = node else { throw refused(node, "expected names with values") }
        var seen: Set<String> = []
        return try mapping.map { key, value in
            guard case .scalar(let name) = key else { throw refused(key, "expected a name") }
            guard seen.insert(name.string).inserted else { throw refused(key, "the name \(name.string) occurs twice") }
            return (name.string, value)
        }
    }

    func list(_ node: Node, _ what: String) throws -> [Node] {
        guard case .sequence(let sequence) = node else { throw refused(node, "expected a list of \(what)") }
        return Array(sequence)
    }

    /// One scalar value; `what` describes it in the error.
    func text(_ node: Node, _ what: String) throws -> String {
        guard case .scalar(let scalar) = node else { throw refused(node, "expected \(what)") }
        return scalar.string.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    func flag(_ node: Node) throws -> Bool {
        switch try text(node, "true or false") {
        case "true": true
        case "false": false
        default: throw refused(node, "expected true or false")
        }
    }

    func refused(_ node: Node?, _ reason: String) -> AnnalsError {
        let line = node?.mark.map { ", line \($0.line)" } ?? ""
        return AnnalsError(.configuration, operation: operation, "\(path)\(line): \(reason)", hint: "\(example) shows the format")
    }
}
