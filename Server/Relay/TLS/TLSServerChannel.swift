internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOSSL

/// HTTP/1.1 within TLS, with whichever certificate is the current one when a connection comes.
///
/// Hummingbird's own channel for TLS keeps one certificate for good.
struct TLSServerChannel: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    let base: HTTP1Channel
    let identities: TLSIdentities

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: identities.context))
        }.flatMap {
            base.setup(channel: channel, logger: logger)
        }
    }

    func handle(value: Value, logger: Logger) async {
        await base.handle(value: value, logger: logger)
    }
}
