package import AnnalsCore

/// A page without its batches. It answers a HEAD request, and names the page for HTTP caches.
package struct PageOutline: Sendable {
    /// The page. Its batches do not count, and may be empty.
    package var page: Page
    /// The length of the batch of each frame, in bytes.
    package var lengths: [Int]
    /// The log's running digest at the page's last position; nil if it is not known.
    package var logDigest: Digest?

    /// - Parameters:
    ///   - lengths: the length of the batch of each frame of `page`, in bytes; nil: the page has the batches.
    ///   - logDigest: the log's running digest at the page's last position; nil if it is not known.
    package init(_ page: Page, lengths: [Int]? = nil, logDigest: Digest?) {
        self.page = page
        self.lengths = lengths ?? page.frames.map(\.batch.count)
        self.logDigest = logDigest
        precondition(page.frames.count == self.lengths.count, "each frame has a batch")
    }

    /// Whether more of the log follows. Such a page can be kept: a later answer to the same request has the same entries.
    package var isFull: Bool { !page.isLast && !page.frames.isEmpty }

    /// The number of bytes of the page.
    package var byteCount: Int { lengths.reduce(page.encodeHead(lengths: lengths).count, +) }

    /// The name of the page's content; nil if the page is not full, or if the running digest is not known.
    ///
    /// It covers the log, the request and the entries, but neither the head nor the horizon. A page with the same name and
    /// an older head is as good, because its reader pulls on until a page is the last one. The log's running digest stands
    /// for the content of the entries. A void changes no digest, but shortens a batch, so the lengths are covered too.
    package var name: Digest? {
        guard isFull, let logDigest else { return nil }
        var writer = ByteWriter(capacity: 128 + 32 * lengths.count)
        writer.string("page of a log")
        writer.identifier(page.lineage)
        writer.position(page.after)
        writer.varint(page.frames.count)
        for (frame, length) in zip(page.frames, lengths) { frame.encodeHead(into: &writer, batchLength: length) }
        writer.digest(logDigest)
        return .sha256(writer.bytes[...])
    }
}
