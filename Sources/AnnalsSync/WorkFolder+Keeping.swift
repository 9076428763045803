import AnnalsCore
import AnnalsWire
import Foundation

/// What is kept for a day after the process has ended: a packed snapshot, complete or partial. A note states its
/// purpose. A digest decides whether its bytes are still those of the relay.
extension WorkFolder {
    private static let noteName = "annals-work.note"
    private static let packedName = "snapshot.zst"
    private static let keptSeconds = 86_400.0
    /// Smaller files are not worth keeping.
    private static let leastBytes: Int64 = 1 << 20

    /// The path of a snapshot in the form that is sent.
    var packed: String { file(Self.packedName) }

    /// Writes the purpose of the folder to a note. For a packed snapshot that will be uploaded, the note also has its
    /// log, position and digest.
    func note(_ purpose: String, of snapshot: (seen: LogMark, digest: Digest)? = nil) {
        let facts = snapshot.flatMap { snapshot in snapshot.seen.headerValue.map { "\($0) \(snapshot.digest)\n" } } ?? ""
        // Without a note nothing is kept, which does no harm.
        try? Self.write("\(purpose)\n\(facts)", to: file(Self.noteName))
    }

    /// A reader finds all of the text or none, unless the machine stops. Foundation's atomic writing is not used,
    /// because it waits for the disk.
    fileprivate static func write(_ text: String, to path: String) throws {
        let beside = path + ".new"
        try Data(text.utf8).write(to: URL(fileURLWithPath: beside))
        guard rename(beside, path) == 0 else { throw AnnalsError(.cannotCreate, operation: "snapshot", "\(path) cannot be written") }
    }

    /// The complete packed snapshot from the note. nil if there is none, or if its bytes differ.
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

    /// Removes the kept files.
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

/// Identifies the snapshot of a partial download, in a file beside it. So another process can resume the download.
struct PartialDownload {
    /// The relay's tag of the snapshot.
    var tag: String
    var length: Int64

    /// The partial download of an earlier process at `path`. nil if it cannot be resumed.
    init?(at path: String) {
        guard let data = FileManager.default.contents(atPath: Self.tagFile(of: path)), !data.isEmpty,
            let length = (try? FileManager.default.attributesOfItem(atPath: path))?[.size] as? Int64, length > 0
        else { return nil }
        tag = String(decoding: data, as: UTF8.self)
        self.length = length
    }

    static func tagFile(of path: String) -> String { path + ".tag" }

    /// Writes the tag of the received bytes. If that fails, another process cannot resume the download.
    static func note(_ tag: String?, of path: String) {
        let file = tagFile(of: path)
        do { try WorkFolder.write(tag ?? "", to: file) } catch { try? FileManager.default.removeItem(atPath: file) }
    }
}
