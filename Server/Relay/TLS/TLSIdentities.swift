internal import AnnalsCore
internal import Foundation
internal import Logging
internal import NIOSSL
internal import ServiceLifecycle
internal import Synchronization
internal import UnixSignals

/// The certificate that new connections get. Those that stand keep the one they began with.
final class TLSIdentities: Sendable {
    private let files: TLSFiles
    private let logger: Logger
    private let current: Mutex<TLSIdentity>
    private let failures = Atomic(0)

    /// Throws `AnnalsError` with `.configuration` where the files cannot be used.
    init(_ files: TLSFiles, logger: Logger) throws {
        self.files = files
        self.logger = logger
        current = Mutex(try TLSIdentity(files, now: Self.now))
    }

    var context: NIOSSLContext { current.withLock { $0.context } }
    /// When the certificate in use ends, in seconds since 1970.
    var expires: Int64 { current.withLock { $0.expires } }
    /// How often new files could not be used.
    var failureCount: Int { failures.load(ordering: .relaxed) }

    /// Reads the files again. What cannot be used is told in the log, and the certificate in use stays.
    func reload() {
        do {
            let new = try TLSIdentity(files, now: Self.now)
            current.withLock { $0 = new }
            logger.notice(
                "the certificate was read again",
                metadata: ["expires": "\(Date(timeIntervalSince1970: Double(new.expires)).ISO8601Format())"])
        } catch {
            failures.add(1, ordering: .relaxed)
            logger.error("the old certificate stays", metadata: ["reason": "\(error.message)"])
        }
    }

    private static var now: Int64 { Int64(Date().timeIntervalSince1970) }
}

/// Reads the certificate again whenever the process gets SIGHUP, until its group is told to stop.
struct CertificateReloading: Service {
    let identities: TLSIdentities
    /// Made before anybody can connect, since the signal ends a process that has no use for it.
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
    var description: String { "reading the certificate again at SIGHUP" }
}
