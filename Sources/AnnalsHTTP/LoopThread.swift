import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A thread of its own, since libcurl's multi interface sleeps in a system call and would hold up the threads
/// that Swift's tasks share.
final class LoopThread: Sendable {
    /// `@unchecked Sendable` because it is a mere name of a thread, which any other may join.
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
            throw HTTPError(.closed, "no thread can be started: \(systemMessage(code))")
        }
        #if canImport(Glibc)
            name = Mutex(Name(thread: thread))
        #else
            name = Mutex(thread.map(Name.init))
        #endif
    }

    deinit {
        // Nobody joined it: then it frees itself when it ends.
        if let name = takeName() { pthread_detach(name.thread) }
    }

    /// Waits for the thread's end, which should be at hand. Later calls return at once.
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

    /// A connection the server has closed is an error to report, not a signal that ends the process. libcurl
    /// asks the system so where it can, but the TLS library does not. Threads that libcurl starts inherit this.
    private static func blockBrokenPipes() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
