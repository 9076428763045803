import CCurl
import Synchronization

/// The client's thread. It runs libcurl's multi interface.
///
/// Other threads only put commands into a mailbox and wake the thread. Each iteration takes the commands, lets libcurl
/// move bytes, and ends transfers that are done or overdue. Then it sleeps in `curl_multi_poll` until a socket, a
/// deadline or a command wakes it.
///
/// `@unchecked Sendable` is safe: only this thread uses anything except the mailbox. Other threads use the multi handle
/// only through `curl_multi_wakeup`, which libcurl allows, and only before the handle is freed.
final class TransferLoop: @unchecked Sendable {
    private enum Command {
        case start(Transfer)
        case cancel(Transfer)
    }

    private struct Mailbox {
        var commands: [Command] = []
        var isPolling = false
        var isClosing = false
        var hasEnded = false
        var closers: [CheckedContinuation<Void, Never>] = []

        /// Whether the thread sleeps and no thread has woken it yet.
        mutating func endPoll() -> Bool {
            defer { isPolling = false }
            return isPolling
        }
    }

    private let mailbox = Mutex(Mailbox())
    /// Whether the multi handle still exists and can be woken. It has a separate lock, because a woken thread needs the
    /// mailbox's lock at once.
    private let canWake = Mutex(true)
    private let multi: UnsafeMutableRawPointer
    private let configuration: HTTPClient.Configuration
    private let security: Security

    private let schedule = Schedule()
    private var active: [ObjectIdentifier: Transfer] = [:]
    /// How many of them the server may keep waiting.
    private var longPolls = 0
    private var waiting: [Transfer] = []
    private var spareHandles: [EasyHandle] = []

    /// libcurl requires this call once in each process, before any other call.
    private static let isLibraryReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    init(_ configuration: HTTPClient.Configuration) throws(HTTPError) {
        guard Self.isLibraryReady, let multi = curl_multi_init() else { throw HTTPError(.closed, "libcurl cannot start") }
        annals_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, HTTPLimits.idleConnections)
        self.multi = multi
        self.configuration = configuration
        security = Security(configuration)
    }

    deinit {
        // This happens only if the thread could not be started. Otherwise the thread keeps the loop until it has ended.
        if canWake.withLock({ $0 }) { curl_multi_cleanup(multi) }
    }

    // MARK: From any thread

    func start(_ transfer: Transfer) {
        // A closed loop never gets the transfer. So this thread may still use it.
        if !post(.start(transfer)) { _ = transfer.fail(Self.closed) }
    }

    /// Ends a transfer with `cancelled`, unless it has already ended.
    func cancel(_ transfer: Transfer) {
        _ = post(.cancel(transfer))
    }

    /// Ends all transfers with `closed`, and then ends `run`. Returns after that.
    func close() async {
        await withCheckedContinuation { closer in
            let hasEnded = mailbox.withLock { box in
                if !box.hasEnded { box.closers.append(closer) }
                return box.hasEnded
            }
            if hasEnded { closer.resume() } else { requestClose() }
        }
    }

    /// Like `close`, but does not wait.
    func requestClose() {
        let mustWake = mailbox.withLock { box in
            box.isClosing = true
            return box.endPoll()
        }
        if mustWake { wake() }
    }

    private func post(_ command: Command) -> Bool {
        let (isTaken, mustWake) = mailbox.withLock { box in
            guard !box.isClosing else { return (false, false) }
            box.commands.append(command)
            return (true, box.endPoll())
        }
        if mustWake { wake() }
        return isTaken
    }

    private func wake() {
        canWake.withLock { if $0 { curl_multi_wakeup(multi) } }
    }

    // MARK: The client's thread

    /// Runs until the loop is closed. The client's thread calls it once.
    func run() {
        while true {
            let (commands, isClosing) = takeCommands()
            schedule.turn()
            commands.forEach(perform)
            if isClosing { break }
            startWaiting()
            move()
            endOverdue()
            if hasRoom, !waiting.isEmpty { continue }
            let mayPoll = mailbox.withLock { box in
                box.isPolling = box.commands.isEmpty && !box.isClosing
                return box.isPolling
            }
            if mayPoll { curl_multi_poll(multi, nil, 0, schedule.pollMilliseconds(), nil) }
        }
        end()
    }

    private func takeCommands() -> ([Command], isClosing: Bool) {
        mailbox.withLock { box in
            defer { (box.commands, box.isPolling) = ([], false) }
            return (box.commands, box.isClosing)
        }
    }

    private func perform(_ command: Command) {
        switch command {
        case .start(let transfer):
            let isLongPoll = transfer.request.isLongPoll
            guard isLongPoll ? longPolls < HTTPLimits.longPolls : waiting.count < HTTPLimits.waitingTransfers else {
                _ = transfer.fail(HTTPError(.overloaded, "too many requests are waiting"))
                return
            }
            if isLongPoll { begin(transfer) } else { waiting.append(transfer) }
            if let deadline = transfer.clock.deadline { schedule.note(deadline) }
        case .cancel(let transfer):
            end(transfer) { $0.fail(HTTPError(.cancelled, "the request was cancelled")) }
        }
    }

    private var room: Int { configuration.activeTransfers - (active.count - longPolls) }
    private var hasRoom: Bool { room > 0 }

    private func startWaiting() {
        guard hasRoom, !waiting.isEmpty else { return }
        let room = min(room, waiting.count)
        let starting = waiting.prefix(room)
        waiting.removeFirst(room)
        for transfer in starting { begin(transfer) }
    }

    private func begin(_ transfer: Transfer) {
        do throws(HTTPError) {
            let handle = if let spare = spareHandles.popLast() { spare } else { try EasyHandle() }
            try transfer.start(on: handle, schedule, configuration, security)
            guard curl_multi_add_handle(multi, handle.pointer) == CURLM_OK else {
                throw HTTPError(.sendFailed, "libcurl refuses the request")
            }
            active[ObjectIdentifier(transfer)] = transfer
            if transfer.request.isLongPoll { longPolls += 1 }
        } catch {
            recycle(transfer.fail(error))
        }
    }

    /// Lets libcurl do everything that does not block, and ends the completed transfers.
    private func move() {
        var running: Int32 = 0
        let code = curl_multi_perform(multi, &running)
        var remaining: Int32 = 0
        while let message = curl_multi_info_read(multi, &remaining)?.pointee {
            guard message.msg == CURLMSG_DONE, let transfer = transfer(of: message.easy_handle) else { continue }
            let result = message.data.result
            if transfer.mayTryAgain(after: result) {
                take(transfer)
                recycle(transfer.tryAgain())
                begin(transfer)
            } else {
                end(transfer) { $0.finish(result) }
            }
        }
        if code != CURLM_OK {
            endAll(HTTPError(.receiveFailed, "libcurl failed: \(String(cString: curl_multi_strerror(code)))"))
        }
    }

    private func transfer(of handle: UnsafeMutableRawPointer?) -> Transfer? {
        guard let handle else { return nil }
        var context: UnsafeMutableRawPointer?
        annals_curl_get_pointer(handle, CURLINFO_PRIVATE, &context)
        return context.map { Unmanaged<Transfer>.fromOpaque($0).takeUnretainedValue() }
    }

    private func endOverdue() {
        guard schedule.isDue else { return }
        schedule.forget()
        for transfer in Array(active.values) + waiting {
            if let verdict = transfer.clock.verdict(schedule.now) {
                end(transfer) { $0.fail($0.error(verdict)) }
            } else if let deadline = transfer.clock.deadline {
                schedule.note(deadline)
            }
        }
    }

    /// Ends a transfer, unless it has ended.
    private func end(_ transfer: Transfer, _ finish: (Transfer) -> EasyHandle?) {
        if take(transfer) { recycle(finish(transfer)) }
    }

    /// Removes a transfer from libcurl or from the waiting transfers. This must come before the transfer gets its
    /// result, so that no callback can follow. False if the transfer has already ended.
    @discardableResult
    private func take(_ transfer: Transfer) -> Bool {
        if active.removeValue(forKey: ObjectIdentifier(transfer)) != nil {
            if transfer.request.isLongPoll { longPolls -= 1 }
            if let handle = transfer.handle { curl_multi_remove_handle(multi, handle.pointer) }
        } else if let index = waiting.firstIndex(where: { $0 === transfer }) {
            waiting.remove(at: index)
        } else {
            return false
        }
        return true
    }

    private func recycle(_ handle: EasyHandle?) {
        guard let handle, spareHandles.count < HTTPLimits.idleConnections else { return }
        handle.reset()
        spareHandles.append(handle)
    }

    private func endAll(_ error: HTTPError) {
        for transfer in Array(active.values) + waiting { end(transfer) { $0.fail(error) } }
    }

    private func end() {
        endAll(Self.closed)
        spareHandles = []
        let closers = mailbox.withLock { box in
            defer { box.closers = [] }
            box.hasEnded = true
            return box.closers
        }
        canWake.withLock { $0 = false }
        curl_multi_cleanup(multi)
        for closer in closers { closer.resume() }
    }

    private static let closed = HTTPError(.closed, "the HTTP client was shut down")
}
