import AnnalsCore
import Foundation
import Yams

/// A file that names the stores of `annals sync`; Config/agent.yaml documents its format.
struct AgentFile: Hashable, Sendable {
    struct Entry: Hashable, Sendable {
        var path: String
        /// Takes precedence over the file that the store remembers.
        var credentialFile: String?
        /// Whether sync follows a relay that was restored from a backup.
        var followsRelay = false
        /// Files with extensions of SQLite: those of the whole file, and those of the store.
        var extensions: [String] = []
    }

    var stores: [Entry] = []

    /// Throws `AnnalsError`: `fileNotFound`, or `configuration` with the line.
    init(readingFrom path: String) throws {
        let file = SettingsFile(path: path, operation: "sync", example: "Config/agent.yaml")
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
        /// Relative to the file's folder; `~/` is the home folder of the user who runs the command.
        func resolved(_ text: String) -> String {
            URL(fileURLWithPath: (text as NSString).expandingTildeInPath, relativeTo: folder).standardizedFileURL.path
        }
        var credentialFile: String?
        var followsRelay = false
        var extensions: [String] = []
        func files(_ node: Node) throws -> [String] {
            try file.list(node, "files").map { resolved(try file.text($0, "the path of a file")) }
        }
        for (name, node) in try file.read().map(file.pairs) ?? [] {
            switch name {
            case "credential-file": credentialFile = resolved(try file.text(node, "the path of a file"))
            case "follow-relay": followsRelay = try file.flag(node)
            case "extensions": extensions = try files(node)
            case "stores":
                for node in try file.list(node, "stores") {
                    var entry = Entry(path: "")
                    if case .scalar = node {
                        entry.path = resolved(try file.text(node, "a path"))
                    } else {
                        for (name, node) in try file.pairs(node) {
                            switch name {
                            case "path": entry.path = resolved(try file.text(node, "a path"))
                            case "credential-file": entry.credentialFile = resolved(try file.text(node, "the path of a file"))
                            case "extensions": entry.extensions = try files(node)
                            default:
                                throw file.refused(
                                    node, "\(name) is not a setting of a store: use path, credential-file or extensions")
                            }
                        }
                    }
                    guard !entry.path.isEmpty else { throw file.refused(node, "this store has no path") }
                    guard !stores.contains(where: { $0.path == entry.path }) else {
                        throw file.refused(node, "the store \(entry.path) is listed twice")
                    }
                    stores.append(entry)
                }
            default:
                throw file.refused(node, "\(name) is not a setting: use stores, credential-file, follow-relay or extensions")
            }
        }
        guard !stores.isEmpty else { throw file.refused(nil, "the file lists no store") }
        for index in stores.indices {
            stores[index].followsRelay = followsRelay
            stores[index].extensions = extensions + stores[index].extensions
        }
        for index in stores.indices where stores[index].credentialFile == nil { stores[index].credentialFile = credentialFile }
    }
}
