import Foundation

/// A path in a folder of its own that is deleted after the test.
final class TemporaryFile: Sendable {
    let folder: String
    let path: String

    init(_ name: String) throws {
        folder = FileManager.default.temporaryDirectory.path + "/annals-edit-\(UUID().uuidString)"
        path = "\(folder)/\(name)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }
}
