import AnnalsCore
import Foundation

/// A new file with a secret, which only its owner can read. It is made before the secret is, so that no secret exists that cannot be
/// stored.
///
/// A file that replaces another one has another name until it is complete.
struct SecretFile {
    let path: String
    /// The name until the file is complete.
    private let temporaryPath: String
    private let file: Int32

    /// - Parameters:
    ///   - replaces: whether a regular file may be replaced.
    ///   - hint: what to do if the file exists.
    /// - Throws: `AnnalsError` with code `cannotCreate`.
    init(_ path: String, replaces: Bool, ifTaken hint: String) throws {
        // A symbolic link is kept; the file that it refers to is replaced.
        let target = replaces ? URL(fileURLWithPath: path).resolvingSymlinksInPath().path : path
        let kind = try? FileManager.default.attributesOfItem(atPath: target)[.type] as? FileAttributeType
        if replaces, let kind, kind != .typeRegular {
            throw AnnalsError(.cannotCreate, "\(path) is not a regular file", hint: "Choose another name")
        }
        self.path = target
        temporaryPath = replaces ? "\(target).new-\(ReplicaID.random().description.prefix(8))" : target
        file = open(temporaryPath, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR)
        guard file >= 0 else {
            guard errno == EEXIST else { throw Self.failure(path) }
            throw AnnalsError(.cannotCreate, "\(path) already exists", hint: hint)
        }
    }

    /// Writes the text and gives the file its name. If that fails, the file is removed.
    ///
    /// - Throws: `AnnalsError` with code `cannotCreate`.
    func finish(_ text: String) throws {
        let handle = FileHandle(fileDescriptor: file, closeOnDealloc: true)
        do {
            try handle.write(contentsOf: Data(text.utf8))
            try handle.synchronize()
            try handle.close()
        } catch {
            unlink(temporaryPath)
            throw AnnalsError(.cannotCreate, "\(path) cannot be written", hint: "Check the disk and the folder")
        }
        guard temporaryPath == path || rename(temporaryPath, path) == 0 else {
            let error = Self.failure(path)
            unlink(temporaryPath)
            throw error
        }
    }

    /// Removes the file, because there is no secret for it.
    func discard() {
        close(file)
        unlink(temporaryPath)
    }

    static func failure(_ path: String) -> AnnalsError {
        AnnalsError(
            .cannotCreate, "\(path) cannot be written: \(String(cString: strerror(errno)))", hint: "Check the folder and its permissions")
    }
}
