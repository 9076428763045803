internal import AnnalsWire
internal import HTTPTypes
internal import NIOCore
internal import NIOHTTPTypes

/// Refuses requests whose body has another transfer coding than `chunked`.
///
/// The parser takes a coding that only ends like that one, such as `xchunked`, for a request without a body. A proxy in front may take
/// it for something else, and then the two disagree on where the next request begins. Such a request is answered with 400, and its
/// connection is closed.
final class FramingHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private var requestsUnderWay = 0
    private var isRefused = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // What follows upon such a request is not looked at.
        guard !isRefused else { return }
        if case .head(let head) = unwrapInboundIn(data) {
            guard head.headerFields[values: .transferEncoding].allSatisfy({ $0.lowercased() == "chunked" }) else {
                return refuse(context)
            }
            requestsUnderWay += 1
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) { requestsUnderWay -= 1 }
        context.write(data, promise: promise)
    }

    private func refuse(_ context: ChannelHandlerContext) {
        isRefused = true
        // An answer amid another one would be taken for a part of that.
        guard requestsUnderWay == 0 else { return context.close(promise: nil) }
        let body = JSONBody.encode(
            Problem(.badRequest, detail: "Transfer-Encoding is not chunked", hint: "Send Content-Length, or Transfer-Encoding: chunked"))
        let headers: HTTPFields = [
            .contentType: Endpoints.MediaType.problem, .contentLength: String(body.readableBytes), .connection: "close",
            .cacheControl: "no-store",
        ]
        context.write(wrapOutboundOut(.head(HTTPResponse(status: .badRequest, headerFields: headers))), promise: nil)
        context.write(wrapOutboundOut(.body(body)), promise: nil)
        let written = context.eventLoop.makePromise(of: Void.self)
        let channel = context.channel
        written.futureResult.whenComplete { _ in channel.close(promise: nil) }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
    }
}

@available(*, unavailable)
extension FramingHandler: Sendable {}
