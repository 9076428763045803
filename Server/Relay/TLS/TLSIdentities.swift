internal import AnnalsCore
internal import Foundation
internal import Logging
internal import NIOSSL
internal import ServiceLifecycle
internal import Synchronization
internal import UnixSignals

/// The certificate for new connections. Open connections keep the one that they started with.
final class TLSIdentities: Sendable {
    private let files: TLSFiles
    private let logger: Logger
    private let current: Mutex<TLSIdentity>
    private let failures = Atomic(0)

    /// Throws `AnnalsError` with `.configuration` if the files cannot be used.
    init(_ files: TLSFiles, logger: Logger) throws {
        self.files = files
        self.logger = logger
        current = Mutex(try TLSIdentity(files, now: Self.now))
    }

    var context: NIOSSLContext { current.withLock { $0.context } }
    /// When the current certificate expires, in seconds since 1970.
    var expires: Int64 { current.withLock { $0.expires } }
    /// The number of failed reloads.
    var failureCount: Int { failures.load(ordering: .relaxed) }

    /// Reloads the files. If they cannot be used, this logs an error and keeps the current certificate.
    func reload() {
        do {
            let new = try TLSIdentity(files, now: Self.now)
            current.withLock { $0 = new }
            logger.notice(
                "the certificate was reloaded",
                metadata: ["expires": "\(Date(timeIntervalSince1970: Double(new.expires)).ISO8601Format())"])
        } catch {
            failures.add(1, ordering: .relaxed)
            logger.error("the certificate was not reloaded; the old one remains in use", metadata: ["reason": "\(error.message)"])
        }
    }

    private static var now: Int64 { Int64(Date().timeIntervalSince1970) }
}

/// Reloads the certificate at each SIGHUP, until its group shuts down.
struct CertificateReloading: Service {
    let identities: TLSIdentities
    /// Created before clients can connect, because an untrapped SIGHUP ends the process.
    let signals: UnixSignalsSequence

    init(_ identities: TLSIdentities) async {
        self.identities = identities
        signals = await UnixSignalsSequence(trapping: .sighup)
    }

    func run() async throws {
        for await _ in signals.cancelOnGracefulShutdown() { identities.reload() }
    }
}

extension CertificateReloading: CustomStringConvertible {
    var description: String { "reloading the certificate at SIGHUP" }
}
