internal import AnnalsWire
internal import HTTPTypes
internal import NIOCore
internal import NIOHTTPTypes

/// Refuses requests with a transfer coding other than `chunked`.
///
/// The parser treats a coding that only ends with this word, such as `xchunked`, as a request without a body. A proxy
/// may treat it differently, and then the two disagree where the next request begins (request smuggling). Such a
/// request gets 400, and its connection is closed.
final class FramingHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private var requestsUnderWay = 0
    private var isRefused = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // Everything after such a request is ignored.
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
        // An answer inside another one would be read as a part of it.
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
