import AnnalsCore
import Foundation
import Logging
import RelayLog
import RelayTestSupport
import ServiceLifecycle
import Testing

@testable import Relay

/// TLS checks that a normal client cannot make.
@Suite struct TLSConnectionTests {
    let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
    }

    private func path(_ name: String) -> String { directory.path + "/" + name }

    /// Makes a self-signed certificate, `NAME.pem` with `NAME.key`.
    private func issue(_ name: String, key: [String] = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            [
                "openssl", "req", "-x509", "-newkey",
            ] + key + [
                "-nodes", "-days", "2", "-subj", "/CN=relay", "-keyout", path("\(name).key"), "-out", path("\(name).pem"),
            ]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }

    /// The cipher suite that `openssl` negotiates with a relay if it offers only these of TLS 1.2; nil if there is none.
    private func suite(_ port: Int, _ ciphers: String) throws -> String? {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "openssl", "s_client", "-connect", "127.0.0.1:\(port)", "-tls1_2", "-cipher", "\(ciphers):@SECLEVEL=0", "-brief",
        ]
        process.standardInput = FileHandle.nullDevice
        (process.standardOutput, process.standardError) = (FileHandle.nullDevice, output)
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let line = text.split(separator: "\n").first { $0.hasPrefix("Ciphersuite: ") }
        return line.map { String($0.dropFirst("Ciphersuite: ".count)) }
    }

    /// Runs a relay with this certificate on a free port.
    private func serve(_ name: String, _ body: @escaping @Sendable (Int) async throws -> Void) async throws {
        var configuration = RelayConfiguration(
            address: try ListenAddress("127.0.0.1:0"), storage: .directory(path("data")), noAuthorization: true)
        configuration.tls = TLSFiles(certificate: path("\(name).pem"), key: path("\(name).key"))
        configuration.limits.shutdownSeconds = 5
        let (addresses, announce) = AsyncStream<ListenAddress>.makeStream()
        let server = try RelayServer(configuration: configuration, logger: .silent) { announce.yield($0) }
        let group = ServiceGroup(configuration: .init(services: [server], logger: .silent))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { announce.finish() }
                try await group.run()
            }
            var iterator = addresses.makeAsyncIterator()
            let address = try #require(await iterator.next())
            do {
                try await body(address.port)
            } catch {
                await group.triggerGracefulShutdown()
                throw error
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    @Test func `TLS 1.2 without forward secrecy, or without authenticated encryption, is refused`() async throws {
        // Only with a key of this kind, a suite without forward secrecy is possible.
        try issue("rsa", key: ["rsa:2048"])
        try await serve("rsa") { port in
            for weak in ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA", "ECDHE-RSA-AES128-SHA"] {
                let found = try suite(port, weak)
                #expect(found == nil, "\(weak)")
            }
            for good in ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"] {
                let found = try suite(port, good)
                #expect(found == good)
            }
        }
    }

    @Test func `a connection that never shakes hands, or stops amid it, is closed like an idle one`() async throws {
        try issue("relay")
        var configuration = RelayConfiguration(
            address: try ListenAddress("127.0.0.1:0"), storage: .directory(path("data")), noAuthorization: true)
        configuration.tls = TLSFiles(certificate: path("relay.pem"), key: path("relay.key"))
        configuration.limits.idleSeconds = 1
        configuration.limits.shutdownSeconds = 5
        let (addresses, announce) = AsyncStream<ListenAddress>.makeStream()
        let server = try RelayServer(configuration: configuration, logger: .silent) { announce.yield($0) }
        let group = ServiceGroup(configuration: .init(services: [server], logger: .silent))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { announce.finish() }
                try await group.run()
            }
            var iterator = addresses.makeAsyncIterator()
            let address = try #require(await iterator.next())
            #expect(address.url == "https://127.0.0.1:\(address.port)")
            // The beginning of a handshake: a record of 512 bytes, of which only some are sent.
            for begin: [UInt8] in [[], [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00]] {
                let connection = try RawConnection(port: address.port)
                if !begin.isEmpty { try connection.send(begin) }
                do {
                    #expect(try await !connection.read(until: nil).contains("HTTP/"))
                } catch let failure as RawConnection.Failure {
                    // The connection was closed, and not left open until the test gave up.
                    #expect(!failure.description.contains("temporarily"), "\(failure)")
                }
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    @Test func `what cannot be used leaves the certificate in use, and is counted`() throws {
        try issue("relay")
        try issue("other")
        let lines = LogCollector.Lines()
        let logger = Logger(label: "test") { _ in LogCollector(lines: lines) }
        let identities = try TLSIdentities(TLSFiles(certificate: path("relay.pem"), key: path("relay.key")), logger: logger)
        let (context, expires) = (identities.context, identities.expires)
        #expect(expires > Int64(Date().timeIntervalSince1970) + 86_400)
        try FileManager.default.removeItem(atPath: path("relay.key"))
        try FileManager.default.copyItem(atPath: path("other.key"), toPath: path("relay.key"))
        identities.reload()
        #expect(identities.context === context && identities.failureCount == 1)
        #expect(lines.all.contains("does not belong to the certificate"))
        try FileManager.default.removeItem(atPath: path("relay.pem"))
        identities.reload()
        #expect(identities.context === context && identities.failureCount == 2)
        try FileManager.default.copyItem(atPath: path("other.pem"), toPath: path("relay.pem"))
        identities.reload()
        #expect(identities.context !== context && identities.failureCount == 2)
    }

    @Test func `the token for metrics is read from a file, or refused in one line`() throws {
        let file = path("token")
        #expect { try ScrapeToken(file: file) } throws: { ($0 as? AnnalsError)?.code == .configuration }
        for text in ["", "short", "two words that are long enough", "ünïcödë-and-long-enough"] {
            try Data(text.utf8).write(to: URL(fileURLWithPath: file))
            #expect("\(text)") { try ScrapeToken(file: file) } throws: { error in
                (error as? AnnalsError)?.code == .configuration && !"\(error)".contains(text.isEmpty ? "\n" : text)
            }
        }
        try Data("0123456789abcdef\n".utf8).write(to: URL(fileURLWithPath: file))
        let token = try ScrapeToken(file: file)
        #expect(token.matches("0123456789abcdef") && !token.matches("0123456789abcdef\n") && !token.matches(""))
    }

    @Test func `a relay says nothing of its configuration to who writes services into a log`() throws {
        var configuration = RelayConfiguration(storage: .postgres("postgres://annals:secret@db.invalid/annals"))
        configuration.metricsTokenFile = nil
        let server = try RelayServer(configuration: configuration, logger: .silent)
        var dumped = ""
        dump(server, to: &dumped)
        for text in ["\(server)", String(reflecting: server), dumped] { #expect(!text.contains("secret"), "\(text)") }
    }
}
