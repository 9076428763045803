internal import HTTPTypes
internal import NIOCore
internal import NIOHTTPTypes

/// Closes a connection if its client keeps the relay waiting: it sends a request's body too slowly, or does not read
/// its answer.
///
/// Only the time in which the relay waits for bytes counts, not the time in which the relay stores them. A connection
/// needs a timer only while a body is incomplete or an answer is unread.
final class ProgressHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let window: TimeAmount
    private let bytesPerSecond: Int
    private let stalled: TimeAmount

    private var isReceiving = false
    private var windowStart = NIODeadline.uptimeNanoseconds(0)
    /// When the relay started to wait for bytes; nil if it does not wait.
    private var waitingSince: NIODeadline?
    /// The time spent waiting in this window, and the bytes received in it.
    private var waited = TimeAmount.zero
    private var received = 0

    /// The number of unsent pieces of answers, and when the last piece was sent.
    private var untaken = 0
    private var lastTaken = NIODeadline.uptimeNanoseconds(0)
    private var check: Scheduled<Void>?

    init(limits: RelayLimits) {
        window = .seconds(Int64(limits.slowSeconds))
        bytesPerSecond = limits.slowBytesPerSecond
        stalled = .seconds(Int64(limits.stalledSeconds))
    }

    // MARK: Incoming

    func read(context: ChannelHandlerContext) {
        if waitingSince == nil { waitingSince = context.eventLoop.now }
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if let since = waitingSince {
            waited = waited + (context.eventLoop.now - since)
            waitingSince = nil
        }
        switch unwrapInboundIn(data) {
        case .head:
            isReceiving = true
            // The wait between two requests does not count.
            beginWindow(context.eventLoop.now)
        case .body(let bytes): received += bytes.readableBytes
        case .end: isReceiving = false
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // Most requests arrive at once and need no timer.
        if isReceiving, check == nil {
            schedule(context)
        }
        context.fireChannelReadComplete()
    }

    // MARK: Outgoing

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let loop = context.eventLoop
        if untaken == 0 { lastTaken = loop.now }
        untaken += 1
        let taken = promise ?? loop.makePromise()
        taken.futureResult.assumeIsolated().whenComplete { _ in
            self.untaken -= 1
            self.lastTaken = loop.now
        }
        context.write(data, promise: taken)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if !context.channel.isWritable, check == nil {
            beginWindow(context.eventLoop.now)
            schedule(context)
        }
        context.fireChannelWritabilityChanged()
    }

    // MARK: The check

    private func beginWindow(_ now: NIODeadline) {
        windowStart = now
        waited = .zero
        received = 0
        if waitingSince != nil { waitingSince = now }
    }

    private func schedule(_ context: ChannelHandlerContext) {
        check = context.eventLoop.assumeIsolated().scheduleTask(in: min(window, stalled)) {
            self.check = nil
            self.look(context)
        }
    }

    private func look(_ context: ChannelHandlerContext) {
        let now = context.eventLoop.now
        guard !(untaken > 0 && now - lastTaken >= stalled), !isTooSlow(now) else {
            context.close(promise: nil)
            return
        }
        if now - windowStart >= window { beginWindow(now) }
        if isReceiving || untaken > 0 { schedule(context) }
    }

    private func isTooSlow(_ now: NIODeadline) -> Bool {
        guard isReceiving, now - windowStart >= window else { return false }
        let waited = waited + (waitingSince.map { now - $0 } ?? .zero)
        let seconds = Double(waited.nanoseconds) / 1e9
        return waited.nanoseconds >= window.nanoseconds / 2 && Double(received) < seconds * Double(bytesPerSecond)
    }

    func handlerRemoved(context: ChannelHandlerContext) { end() }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    private func end() {
        check?.cancel()
        check = nil
    }
}

@available(*, unavailable)
extension ProgressHandler: Sendable {}
