internal import CoreMetrics
internal import HTTPTypes
internal import NIOCore
internal import NIOHTTPTypes

/// Counts connections, and the bytes of request and response bodies.
final class TrafficHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let metrics: RelayMetrics

    init(_ metrics: RelayMetrics) {
        self.metrics = metrics
    }

    func handlerAdded(context: ChannelHandlerContext) {
        metrics.connections.increment()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        metrics.connections.decrement()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .body(let bytes) = unwrapInboundIn(data) { metrics.receivedBytes.increment(by: bytes.readableBytes) }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .body(let bytes) = unwrapOutboundIn(data) { metrics.sentBytes.increment(by: bytes.readableBytes) }
        context.write(data, promise: promise)
    }
}

@available(*, unavailable)
extension TrafficHandler: Sendable {}
