internal import Foundation

/// The file system that a folder is in.
struct DiskSpace: Sendable {
    let path: String

    /// Bytes that a program without special rights may still write; nil where the system does not tell.
    var freeBytes: Int64? {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        return Int64(clamping: UInt64(status.f_bavail) * UInt64(status.f_frsize))
    }
}
