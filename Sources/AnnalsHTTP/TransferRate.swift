/// The slowest allowed rate of a body: this number of bytes in each period of this time. A slow connection may take as
/// long as it needs. A server that sends a byte only now and then gets an error.
package struct TransferRate: Sendable, Hashable {
    package var bytes: Int
    package var time: Duration

    package init(bytes: Int, in time: Duration) {
        self.bytes = bytes
        self.time = time
    }
}
