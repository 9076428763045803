import AnnalsCore
import AnnalsWire
import Foundation

/// What outlives the process that was at work in a folder: a packed snapshot, whole or in part, for a day. A note says for
/// whom; whether the bytes are still what the relay has, their digest decides.
extension WorkFolder {
    private static let noteName = "annals-work.note"
    private static let packedName = "snapshot.zst"
    private static let keptSeconds = 86_400.0
    /// Less is sent again sooner than it is explained.
    private static let leastBytes: Int64 = 1 << 20

    /// Where a snapshot lies as it travels.
    var packed: String { file(Self.packedName) }

    /// Writes down what the folder is for. For a snapshot that is to be sent, after it was packed: of which log it is, and its bytes.
    func note(_ purpose: String, of snapshot: (seen: LogMark, digest: Digest)? = nil) {
        let facts = snapshot.flatMap { snapshot in snapshot.seen.headerValue.map { "\($0) \(snapshot.digest)\n" } } ?? ""
        // Without a note nothing is kept, which is no harm.
        try? Self.write("\(purpose)\n\(facts)", to: file(Self.noteName))
    }

    /// Whoever reads finds all of it or none, unless the machine stops: Foundation's own atomic writing waits for the disk.
    fileprivate static func write(_ text: String, to path: String) throws {
        let beside = path + ".new"
        try Data(text.utf8).write(to: URL(fileURLWithPath: beside))
        guard rename(beside, path) == 0 else { throw AnnalsError(.cannotCreate, operation: "snapshot", "\(path) cannot be written") }
    }

    /// The whole packed snapshot that was noted; nil where there is none, or other bytes.
    func keptSnapshot(of lineage: Lineage) -> (seen: LogMark, digest: Digest)? {
        let facts = Self.note(in: path).dropFirst().first?.split(separator: " ").map(String.init) ?? []
        guard facts.count == 2, let seen = LogMark(lineage: lineage, headerValue: facts[0]), let digest = Digest(facts[1]), holds(digest)
        else { return nil }
        return (seen, digest)
    }

    /// Whether the packed snapshot has this digest.
    func holds(_ digest: Digest) -> Bool {
        (try? FileDigest.sha256(packed)) == digest
    }

    /// Drops what was kept.
    func forget() {
        for path in [packed, PartialDownload.tagFile(of: packed)] { try? FileManager.default.removeItem(atPath: path) }
    }

    static func isKept(in parent: String, for purpose: String) -> Bool {
        folders(in: parent).contains { Self.purpose(of: $0) == purpose && isWorthKeeping($0) }
    }

    static func purpose(of path: String) -> String? {
        note(in: path).first
    }

    private static func note(in path: String) -> [String] {
        let data = FileManager.default.contents(atPath: "\(path)/\(noteName)") ?? Data()
        return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    static func isWorthKeeping(_ path: String) -> Bool {
        guard let facts = try? FileManager.default.attributesOfItem(atPath: "\(path)/\(packedName)"),
            let size = facts[.size] as? Int64, let date = facts[.modificationDate] as? Date
        else { return false }
        return size >= leastBytes && date.timeIntervalSinceNow > -keptSeconds
    }

    func removeAllButKept() {
        let kept = [Self.lockName, Self.noteName, Self.packedName, PartialDownload.tagFile(of: Self.packedName)]
        for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] where !kept.contains(name) {
            try? FileManager.default.removeItem(atPath: file(name))
        }
    }
}

/// Which snapshot the bytes of a download are of, in a file beside them: so that another process can go on with it.
struct PartialDownload {
    /// The relay's tag of the snapshot.
    var tag: String
    var length: Int64

    /// What an earlier process left at `path`; nil when it is nothing to go on from.
    init?(at path: String) {
        guard let data = FileManager.default.contents(atPath: Self.tagFile(of: path)), !data.isEmpty,
            let length = (try? FileManager.default.attributesOfItem(atPath: path))?[.size] as? Int64, length > 0
        else { return nil }
        tag = String(decoding: data, as: UTF8.self)
        self.length = length
    }

    static func tagFile(of path: String) -> String { path + ".tag" }

    /// Notes what the bytes that come are of. Where that fails they are of no use to another process.
    static func note(_ tag: String?, of path: String) {
        let file = tagFile(of: path)
        do { try WorkFolder.write(tag ?? "", to: file) } catch { try? FileManager.default.removeItem(atPath: file) }
    }
}
