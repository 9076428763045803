internal import HTTPTypes
internal import NIOCore
internal import NIOHTTPTypes

/// Closes a connection whose other side keeps the relay waiting: one that sends a request's body too slowly, or takes nothing of its
/// answer.
///
/// Only time counts in which the relay waits for bytes, and not what it takes itself to store them. A connection costs a timer while
/// a body comes in or an answer is not taken yet, and nothing otherwise.
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
    /// Since when bytes were asked for and none came.
    private var waitingSince: NIODeadline?
    /// For how long they were waited for within the window, and how many came.
    private var waited = TimeAmount.zero
    private var received = 0

    /// Pieces of answers that were not taken yet, and when one was last.
    private var untaken = 0
    private var lastTaken = NIODeadline.uptimeNanoseconds(0)
    private var check: Scheduled<Void>?

    init(limits: RelayLimits) {
        window = .seconds(Int64(limits.slowSeconds))
        bytesPerSecond = limits.slowBytesPerSecond
        stalled = .seconds(Int64(limits.stalledSeconds))
    }

    // MARK: What comes in

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
            // What was waited for between requests is nobody's fault.
            beginWindow(context.eventLoop.now)
        case .body(let bytes): received += bytes.readableBytes
        case .end: isReceiving = false
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // Most requests are whole at once, and need no timer.
        if isReceiving, check == nil {
            schedule(context)
        }
        context.fireChannelReadComplete()
    }

    // MARK: What goes out

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

    // MARK: Looking

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
