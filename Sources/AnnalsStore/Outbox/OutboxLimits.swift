/// Named bounds of the outbox and of pushes.
package struct OutboxLimits: Sendable, Hashable {
    /// Plain bytes of bodies in one push.
    package var pushBytes = 2 << 20
    package var pushTransactions = 4_096
    /// Plain bytes after which a transaction is continued in another part: what one transaction takes of memory at a time.
    package var partBytes = 4 << 20

    package init() {}
}
