internal import AnnalsCore
internal import Configuration
internal import Foundation
internal import Yams

/// A checked configuration file: it has only known keys.
struct SettingsFile {
    let path: String
    private var lines: [String: Int] = [:]

    /// Throws `AnnalsError`: `.fileNotFound`, and `.configuration` for invalid YAML or unknown keys.
    init(path: String) throws {
        self.path = path
        guard let data = FileManager.default.contents(atPath: path) else {
            throw AnnalsError(
                .fileNotFound, operation: "relay", "the configuration \(path) cannot be read", hint: "Check its name and permissions")
        }
        let root: Node?
        do {
            root = try Yams.compose(yaml: String(decoding: data, as: UTF8.self))
        } catch let error as YamlError {
            throw Self.wrong(path, Self.line(of: error), "is not YAML: \(Self.reason(error))")
        }
        // A file with only comments has no settings.
        guard let root, !Self.isEmpty(root) else { return }
        guard let mapping = root.mapping else { throw Self.wrong(path, root.mark?.line, "is not a mapping of settings") }
        try check(mapping, [], Set(RelaySetting.all.map(\.name)))
    }

    private mutating func check(_ mapping: Node.Mapping, _ sections: [String], _ known: Set<String>) throws {
        for (key, value) in mapping {
            let line = key.mark?.line
            guard let word = key.string else { throw Self.wrong(path, line, "has a key that is not a string") }
            let name = (sections + [word]).joined(separator: ".")
            let isSection = known.contains { $0.hasPrefix(name + ".") }
            if isSection, let section = value.mapping {
                try check(section, sections + [word], known)
            } else if isSection || known.contains(name) {
                guard value.scalar != nil, !isSection || Self.isEmpty(value) else {
                    throw Self.wrong(path, line, isSection ? "has \(name), which is a section" : "has more than one value for \(name)")
                }
                if !Self.isEmpty(value) { lines[name] = line ?? 0 }
            } else {
                throw Self.wrong(path, line, "has the unknown setting \(name)")
            }
        }
    }

    /// The values of the file. Throws `AnnalsError` with `.configuration`.
    func provider() async throws -> any ConfigProvider {
        guard !lines.isEmpty else { return InMemoryProvider(values: [:]) }
        do {
            let place = InMemoryProvider(values: ["filePath": .init(.string(path), isSecret: false)])
            return try await FileProvider<YAMLSnapshot>(config: ConfigReader(provider: place))
        } catch {
            throw Self.wrong(path, nil, "cannot be read")
        }
    }

    /// Whether the file sets a setting.
    func has(_ name: String) -> Bool { lines[name] != nil }

    /// The name of a setting in an error.
    func place(_ name: String) -> String {
        "\(name) in \(path)" + (lines[name].map { ", line \($0)," } ?? "")
    }

    private static func isEmpty(_ node: Node) -> Bool { node.null != nil }

    private static func wrong(_ path: String, _ line: Int?, _ what: String) -> AnnalsError {
        AnnalsError(
            .configuration, operation: "relay", "\(path)\(line.map { ", line \($0)," } ?? "") \(what)",
            hint: "Config/relay.yaml explains every setting")
    }

    private static func line(of error: YamlError) -> Int? {
        switch error {
        case .scanner(_, _, let mark, _), .parser(_, _, let mark, _), .composer(_, _, let mark, _): mark.line
        case .duplicatedKeysInMapping(_, let context): context.mark.line
        default: nil
        }
    }

    private static func reason(_ error: YamlError) -> String {
        switch error {
        case .scanner(_, let problem, _, _), .parser(_, let problem, _, _), .composer(_, let problem, _, _): problem
        case .duplicatedKeysInMapping(let keys, _): "it has the key \(keys.map { "\($0)" }.joined(separator: ", ")) twice"
        default: "it cannot be read"
        }
    }
}
