/// The least that a body must move: so many bytes in so much time, over and over. A slow line goes on for as long as it needs, and a
/// server that sends a byte now and then comes to an end.
package struct TransferRate: Sendable, Hashable {
    package var bytes: Int
    package var time: Duration

    package init(bytes: Int, in time: Duration) {
        self.bytes = bytes
        self.time = time
    }
}
