@testable import AnnalsCore
@testable import AnnalsHTTP
@testable import AnnalsSync
@testable import AnnalsWire
@testable import Relay

/// Short texts from headers, addresses, key files and settings.
enum TextFuzzing {
    static let target = FuzzTarget("text", seeds: { _ in seeds }) { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        readIdentities(text)
        readAddresses(text)
        if let milliseconds = TimeText.milliseconds(text) {
            expect(TimeText.milliseconds(TimeText.text(milliseconds: milliseconds)) == milliseconds, "a time reads as it is written")
        }
        _ = try? SpaceKeyRing(text: text)
        let bound = Int64(bytes.count) * 7
        if case .part(let range) = ByteRange(header: text, byteCount: bound) {
            expect(!range.isEmpty && range.upperBound <= bound, "a range is within the file")
        }
        if let range = PartRange(text) {
            expect(range.first.map { $0 + Int64(range.count) <= range.total } ?? (range.count == 0), "a part is within the whole")
        }
        _ = HeadStream.seen(text, lineage: lineage)
        _ = Authorizer.bearer(text)
        _ = PeerNetwork.name(of: text)
    }

    private static let lineage = Lineage(high: 0x0102_0304_0506_0708, low: 9)

    private static func readIdentities(_ text: String) {
        if let mark = LogMark(lineage: lineage, headerValue: text) {
            expect(mark.headerValue.flatMap { LogMark(lineage: lineage, headerValue: $0) } == mark, "a mark reads as it is written")
            expect(mark.position.next > mark.position, "a position has one behind it")
        }
        if let id = ReplicaID(text) { expect(ReplicaID(id.description) == id, "an id reads as it is written") }
        if let digest = Digest(text) { expect(Digest(digest.description) == digest, "a digest reads as it is written") }
        if let space = SpaceName(text) { expect(space.description == text, "a name is its text") }
    }

    private static func readAddresses(_ text: String) {
        if let target = try? RequestTarget(url: text) {
            _ = (target.isLoopback, target.name, ProxyChoice(for: target) { _ in text }.hasProxy)
        }
        if let address = try? ListenAddress(text) { _ = (address.isLoopback, address.url) }
    }

    private static var seeds: [[UInt8]] {
        [
            "5-\(Digest.sha256([1]))", lineage.description, "12/\(lineage)", "bytes=5-", "bytes=-5", "bytes=0-99", "bytes 0-4/10",
            "bytes */10", "Bearer ann_abc", "https://relay.example.org:8640/v1", "http://[::1]:80", "[::1]:8640", "::ffff:1.2.3.4",
            "fe80::1%eth0", "45s", "2w", "4611686018427387903-\(Digest.zero)",
            SpaceKey(bytes: [UInt8](repeating: 1, count: 32))?.line ?? "",
        ].map { Array($0.utf8) }
    }
}
