import AnnalsCore
import Foundation
import RelayLog
import RelayTestSupport
import Testing
import Yams

@testable import Relay

/// The settings of a relay from flags, environment and file.
@Suite struct RelaySettingsTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func read(
        _ yaml: String? = nil, environment: [String: String] = [:], flags: [String: String] = [:]
    ) async throws -> RelaySettings {
        let path = directory.path + "/relay.yaml"
        if let yaml { try Data(yaml.utf8).write(to: URL(fileURLWithPath: path)) }
        return try await RelaySettings.read(flags: flags, environment: environment, file: yaml == nil ? nil : path)
    }

    private func expectRefused(
        _ yaml: String? = nil, environment: [String: String] = [:], flags: [String: String] = [:], _ words: String...,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        do {
            _ = try await read(yaml, environment: environment, flags: flags)
            Issue.record("nothing was refused", sourceLocation: sourceLocation)
        } catch let error as AnnalsError {
            #expect(error.code == .configuration, sourceLocation: sourceLocation)
            for word in words { #expect(error.message.contains(word), "\(error.message)", sourceLocation: sourceLocation) }
        } catch {
            Issue.record("\(error)", sourceLocation: sourceLocation)
        }
    }

    static let example = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../Config/relay.yaml").path

    @Test func `Config-relay_yaml has every setting at its default`() async throws {
        let defaults = RelaySettings()
        let text = try String(contentsOfFile: Self.example, encoding: .utf8)
        let root = try #require(try Yams.compose(yaml: text)?.mapping)
        for setting in RelaySetting.all {
            var node: Node? = .mapping(root)
            for word in setting.name.split(separator: ".") { node = node?.mapping?[Node(String(word))] }
            let found = try #require(node, "\(setting.name) is missing")
            let value = found.null == nil ? found.scalar?.string : ""
            #expect(value == setting.get(defaults), "\(setting.name)")
        }
        // An empty file, and this one, give the defaults.
        let (read, empty) = (try await RelaySettings.read(flags: [:], environment: [:], file: Self.example), try await self.read(""))
        for setting in RelaySetting.all {
            #expect(setting.get(read) == setting.get(defaults) && setting.get(empty) == setting.get(defaults), "\(setting.name)")
        }
        #expect(!read.hasStorage && read.configuration.webTokens == nil && read.configuration.purge == PurgeRules())
        #expect(read.configuration.limits == RelayLimits())
    }

    @Test func `every limit has a name of its own, and every number of the limits has one`() {
        #expect(Set(RelayLimits.named.map(\.name)).count == RelayLimits.named.count)
        // The mirror finds a new limit without a name.
        let own = Mirror(reflecting: RelayLimits()).children.compactMap { $0.value is Int ? $0.label : nil }
        let names = Set(RelayLimits.named.map { $0.name.replacing("-", with: "") })
        for label in own { #expect(names.contains(label.lowercased()), "\(label) is in no table") }
        #expect(own.count > 10)
        // The same for limits of the log, except for those that only limit the relay's own memory or a time and refuse no request.
        let inner: Set = [
            "groupPushes", "groupBytes", "commitAttempts", "hashesPerSpace", "residentSpaces", "staleAnswersBeforeLease",
            "pushLeaseMilliseconds", "waitHintMilliseconds", "replicasCounted", "readers", "unsavedAcknowledgements",
            "acknowledgementMilliseconds", "nameCharacters",
            "spaceUseMilliseconds", "diskLookMilliseconds", "snapshotsKept", "snapshotLogBytes", "snapshotLeaseMilliseconds",
            "purgeSliceBytes", "purgeSliceRuns", "parkedUploadMilliseconds", "snapshotOpenings", "growthDays", "waitTickMilliseconds",
            "tokenMilliseconds", "tokensRemembered", "answerMilliseconds", "acknowledgementsSaved", "parkedPartMilliseconds", "shares",
            "reportsPerSpace", "reportsPerOwner", "snapshotPauseMilliseconds",
        ]
        let renamed = ["pendingPartBytes": "transactionbytes"]
        let logs = Mirror(reflecting: RelayLogLimits()).children.compactMap(\.label).filter { !inner.contains($0) }
        for label in logs { #expect(names.contains(renamed[label] ?? label.lowercased()), "\(label) is in no table") }
        #expect(logs.count > 5)
    }

    @Test func `the document has every limit with its default, and no other`() throws {
        let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../Documentation/relay.md").path
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let section = try #require(text.components(separatedBy: "\n## Limits\n").dropFirst().first?.components(separatedBy: "\n## ").first)
        let rows = section.split(separator: "\n").filter { $0.hasPrefix("| `") }.map(String.init)
        let defaults = RelayLimits()
        #expect(rows == RelayLimits.named.map { "| `\($0.name)` | \(defaults[keyPath: $0.value]) | \($0.beyond) |" })
    }

    @Test func `whatever a relay can be told has a setting`() {
        // A new property is missing in this list, and perhaps in the file.
        let settings = [
            "address": ["listen"], "storage": ["data", "postgres"], "noAuthorization": ["no-auth"], "allowPlaintext": ["allow-plaintext"],
            "tls": ["tls.certificate", "tls.key"], "metricsTokenFile": ["metrics-token-file"], "limits": [],
            "webTokens": ["jwt.keys", "jwt.issuer", "jwt.audience", "jwt.claim", "jwt.leeway-seconds"],
            "purge": ["purge.enabled", "purge.keep", "purge.retention", "purge.silence"], "autoVoid": ["auto-void"],
            "trustedProxies": ["trusted-proxies"], "backup": ["backup.folder", "backup.every", "backup.keep"],
        ]
        func labels(_ value: Any) -> Set<String> { Set(Mirror(reflecting: value).children.compactMap(\.label)) }
        #expect(labels(RelayConfiguration(storage: .directory(""))) == Set(settings.keys))
        #expect(Set(settings.values.joined()).isSubset(of: RelaySetting.all.map(\.name)))
        #expect(labels(WebTokenSettings(keys: "", issuer: "", audience: "")).count == settings["webTokens"]?.count)
        #expect(labels(BackupRules()).count == settings["backup"]?.count)
        #expect(labels(PurgeRules()).subtracting(["isForced"]).count + 1 == settings["purge"]?.count)
    }

    @Test func `setting each changes it, and it alone`() async throws {
        let defaults = RelaySettings()
        let values = [
            "listen": "127.0.0.2:1", "data": "here", "postgres": "there", "no-auth": "true", "allow-plaintext": "true",
            "log-level": "error", "log-format": "json", "metrics-token-file": "m", "tls.certificate": "c", "tls.key": "k",
            "purge.enabled": "false", "purge.keep": "3h", "purge.retention": "4d", "purge.silence": "5w", "jwt.keys": "k",
            "jwt.issuer": "i",
            "jwt.audience": "a", "jwt.claim": "c", "jwt.leeway-seconds": "7", "auto-void": "2",
            "trusted-proxies": "127.0.0.1, fd00::/8", "backup.folder": "b", "backup.every": "6h", "backup.keep": "9",
        ]
        for setting in RelaySetting.all {
            let value = try #require(values[setting.name] ?? (setting.name.hasPrefix("limits.") ? "77" : nil), "\(setting.name)")
            let settings = try await read(flags: [setting.name: value])
            #expect(setting.get(settings) == value)
            for other in RelaySetting.all where other.name != setting.name {
                #expect(other.get(settings) == other.get(defaults), "\(setting.name) changed \(other.name)")
            }
            let variable = try await read(environment: [RelaySettings.variable(setting.name): value])
            #expect(setting.get(variable) == value)
        }
    }

    @Test func `the settings that differ are listed, without a database's address`() async throws {
        #expect(RelaySettings().changes.isEmpty)
        let yaml = "limits:\n  spaces: 7\n  waiters: 20000\nno-auth: yes\njwt:\n  keys: https://ann:secret@id.example.org/keys\n"
        let settings = try await read(yaml, flags: ["postgres": "postgres://ann:secret@db.internal/annals"])
        #expect(settings.changes == ["postgres", "no-auth=true", "jwt.keys", "limits.spaces=7"])
    }

    @Test func `flags override the environment, and that the file`() async throws {
        let yaml = "limits:\n  connections: 1\n  backlog: 1\n  waiters: 1\nlisten: 127.0.0.1:1\nno-auth: yes\n"
        let environment = ["ANNALS_RELAY_LIMITS_BACKLOG": "2", "ANNALS_RELAY_LIMITS_WAITERS": "2", "ANNALS_RELAY_LISTEN": ""]
        let settings = try await read(yaml, environment: environment, flags: ["limits.waiters": "3"])
        let limits = settings.configuration.limits
        #expect((limits.connections, limits.backlog, limits.waiters) == (1, 2, 3))
        #expect(settings.configuration.address.port == 1 && settings.configuration.noAuthorization)
    }

    @Test func `where the log is says the one place that counts most`() async throws {
        let yaml = "data: folder\n"
        #expect(try await read(yaml).configuration.storage == .directory("folder"))
        #expect(try await read(yaml, environment: ["ANNALS_RELAY_POSTGRES": "url"]).configuration.storage == .postgres("url"))
        #expect(
            try await read(yaml, environment: ["ANNALS_RELAY_POSTGRES": "url"], flags: ["data": "x"]).configuration.storage
                == .directory("x"))
        await expectRefused("data: a\npostgres: b\n", "data", "postgres")
        #expect(try await !read().hasStorage)
    }

    @Test func `unknown keys, wrong values and what is no YAML are told with name and line`() async throws {
        await expectRefused("listen: 127.0.0.1:1\nlisen: x\n", "lisen", "line 2")
        await expectRefused("limits:\n  batch-bites: 3\n", "limits.batch-bites", "line 2")
        await expectRefused("batch-bytes: 3\n", "batch-bytes", "line 1")
        await expectRefused("limits:\n  connections: many\n", "limits.connections", "line 2", "many", "whole number")
        await expectRefused("limits:\n  connections: [1, 2]\n", "limits.connections", "line 2")
        await expectRefused("limits: 3\n", "limits", "line 1")
        await expectRefused("jwt:\n  keys:\n    file: x\n", "jwt.keys", "line 2")
        await expectRefused("purge:\n  keep: 7 days\n", "purge.keep", "line 2", "30d")
        await expectRefused("no-auth: maybe\n", "no-auth", "true or false")
        await expectRefused("log-level: loud\n", "log-level", "loud")
        await expectRefused("listen: nowhere\n", "listen", "HOST:PORT")
        for wrong in ["proxy", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8/9", "10.0.0.1,", "fd00::/129", "10.0.0.0/-1", "10.0.0.0/+8"] {
            await expectRefused("trusted-proxies: \"\(wrong)\"\n", "trusted-proxies", "line 1", "10.0.0.0/8")
        }
        await expectRefused("- listen\n", "is not a mapping of settings")
        await expectRefused("listen: a\nlisten: b\n", "listen")
        await expectRefused("a: b: c\n\t- x", "YAML")
        await expectRefused(environment: ["ANNALS_RELAY_LIMITS_CONNECTIONS": "x"], "ANNALS_RELAY_LIMITS_CONNECTIONS")
        await expectRefused(flags: ["purge.keep": "x"], "--purge.keep")
        await #expect {
            try await RelaySettings.read(flags: [:], environment: [:], file: directory.path + "/none")
        } throws: { ($0 as? AnnalsError)?.code == .fileNotFound }
    }

    @Test func `web tokens are on when one of their settings is there, and then all must be`() async throws {
        let some = try await read("jwt:\n  issuer: https://id.example.org\ndata: x\n")
        #expect { try some.configuration.validate() } throws: { ($0 as? AnnalsError)?.message.contains("keys") == true }
        let all = try await read("jwt:\n  issuer: i\n  keys: k\n  audience: a\ndata: x\n")
        try all.configuration.validate()
        #expect(all.configuration.webTokens == WebTokenSettings(keys: "k", issuer: "i", audience: "a"))
    }
}
