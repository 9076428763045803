import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import Testing

@testable import Relay

/// A client that makes the relay wait is disconnected. A client that waits for the relay is not.
@Suite struct ProgressHandlerTests {
    private let channel: EmbeddedChannel
    private let held = HeldWrites()

    init() throws {
        var limits = RelayLimits()
        (limits.slowSeconds, limits.slowBytesPerSecond, limits.stalledSeconds) = (10, 100, 60)
        channel = EmbeddedChannel(handlers: [held, ProgressHandler(limits: limits)])
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    private func receive(_ part: HTTPRequestPart) throws { try channel.writeInbound(part) }
    private func body(_ count: Int) throws { try receive(.body(ByteBuffer(repeating: 1, count: count))) }
    private func head() throws { try receive(.head(.init(method: .post, scheme: nil, authority: nil, path: "/"))) }

    /// The relay asks for more, and this time passes.
    private func wait(_ seconds: Int64) {
        channel.read()
        channel.embeddedEventLoop.advanceTime(by: .seconds(seconds))
    }

    @Test func `a body that comes too slowly`() throws {
        try head()
        for _ in 0..<9 {
            wait(1)
            try body(50)
        }
        #expect(channel.isActive)
        wait(2)
        #expect(!channel.isActive)
    }

    @Test func `a body that comes fast enough, at the last moment of each window`() throws {
        try head()
        for _ in 0..<50 {
            wait(9)
            try body(1000)
            wait(1)
        }
        #expect(channel.isActive)
    }

    @Test func `a fast beginning excuses nothing`() throws {
        try head()
        try body(50_000_000)
        wait(10)
        #expect(channel.isActive)
        wait(10)
        #expect(!channel.isActive)
    }

    @Test func `time in which the relay stores what has come`() throws {
        try head()
        try body(10)
        // The relay does not ask for more meanwhile.
        channel.embeddedEventLoop.advanceTime(by: .seconds(3600))
        #expect(channel.isActive)
    }

    @Test func `waiting between requests`() throws {
        for _ in 0..<3 {
            try head()
            try body(5000)
            try receive(.end(nil))
            wait(9)
            try head()
            wait(1)
            wait(3)
            try body(5000)
            try receive(.end(nil))
            wait(100)
            #expect(channel.isActive)
        }
    }

    @Test func `an answer that nobody takes, and one that is taken slowly`() throws {
        func answer() {
            channel.pipeline.writeAndFlush(HTTPResponsePart.body(ByteBuffer(repeating: 1, count: 100_000)), promise: nil)
        }
        held.isHolding = true
        for _ in 0..<3 { answer() }
        held.signal(isWritable: false)
        for _ in 0..<3 {
            channel.embeddedEventLoop.advanceTime(by: .seconds(59))
            #expect(channel.isActive)
            held.release()
        }
        answer()
        held.signal(isWritable: false)
        channel.embeddedEventLoop.advanceTime(by: .seconds(75))
        #expect(!channel.isActive)
        held.releaseAll()
    }

    @Test func `an event stream that has nothing to say`() throws {
        try head()
        try receive(.end(nil))
        channel.pipeline.writeAndFlush(HTTPResponsePart.head(.init(status: .ok)), promise: nil)
        wait(3600)
        #expect(channel.isActive)
    }
}

/// The other side's socket. It can stop accepting writes.
private final class HeldWrites: ChannelOutboundHandler {
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    var isHolding = false
    private var promises: [EventLoopPromise<Void>] = []
    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if isHolding, let promise {
            promises.append(promise)
        } else {
            promise?.succeed()
        }
    }

    func signal(isWritable: Bool) {
        (context?.channel as? EmbeddedChannel)?.isWritable = isWritable
        context?.fireChannelWritabilityChanged()
    }

    func release() {
        if !promises.isEmpty { promises.removeFirst().succeed() }
    }

    func releaseAll() { while !promises.isEmpty { release() } }
}
