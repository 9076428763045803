import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A dedicated thread. libcurl's multi interface sleeps in a system call and would block a thread that Swift's tasks
/// share.
final class LoopThread: Sendable {
    /// `@unchecked Sendable` is safe because it is only the handle of a thread, and any thread may join it.
    private struct Name: @unchecked Sendable {
        var thread: pthread_t
    }

    private final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    private let name: Mutex<Name?>

    init(_ run: @escaping @Sendable () -> Void) throws(HTTPError) {
        let body = Unmanaged.passRetained(Body(run))
        #if canImport(Glibc)
            var thread = pthread_t()
        #else
            var thread: pthread_t?
        #endif
        let code = pthread_create(&thread, nil, Self.main, body.toOpaque())
        guard code == 0 else {
            body.release()
            throw HTTPError(.closed, "cannot start a thread: \(systemMessage(code))")
        }
        #if canImport(Glibc)
            name = Mutex(Name(thread: thread))
        #else
            name = Mutex(thread.map(Name.init))
        #endif
    }

    deinit {
        // No thread joined it, so it must free itself when it ends.
        if let name = takeName() { pthread_detach(name.thread) }
    }

    /// Waits for the end of the thread, which should be near. Later calls return at once.
    func join() {
        if let name = takeName() { pthread_join(name.thread, nil) }
    }

    private func takeName() -> Name? {
        name.withLock { name in
            defer { name = nil }
            return name
        }
    }

    #if canImport(Darwin)
        private static let main: @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? = { context in
            begin(context)
            return nil
        }
    #else
        private static let main: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
            if let context { begin(context) }
            return nil
        }
    #endif

    private static func begin(_ context: UnsafeMutableRawPointer) {
        blockBrokenPipes()
        Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
    }

    /// If the server has closed a connection, the client must get an error and not a signal that ends the process.
    /// libcurl disables the signal where it can, but the TLS library does not. Threads that libcurl starts inherit this
    /// mask.
    private static func blockBrokenPipes() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
