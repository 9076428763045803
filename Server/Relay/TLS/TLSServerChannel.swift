internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOSSL

/// HTTP/1.1 over TLS with the certificate that is current when a connection opens.
///
/// Hummingbird's own TLS channel cannot change its certificate.
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
