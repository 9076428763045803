package import AnnalsCore
package import AnnalsWire
import Foundation
import GRDB

/// The file with a space's keys. It is read whenever the keys are needed and is never copied. So a key that is added to it is used
/// at once.
package enum SpaceKeyFile {
    /// - Throws: `AnnalsError` with code `missingKey`. Its message contains nothing of the file's contents.
    package static func read(_ path: String) throws(AnnalsError) -> SpaceKeyRing {
        guard FileManager.default.fileExists(atPath: path) else {
            throw AnnalsError(
                .missingKey, "there is no space key file \(path)", hint: "Restore it; another replica of the space has the same file")
        }
        guard let file = FileHandle(forReadingAtPath: path),
            let data = try? file.read(upToCount: SpaceKeyRing.maximumBytes + 1) ?? Data()
        else {
            throw AnnalsError(.missingKey, "the space key file \(path) cannot be read", hint: "Check its permissions")
        }
        // A truncated file could lack the newest key, and an old key would be used to seal.
        guard data.count <= SpaceKeyRing.maximumBytes else {
            throw AnnalsError(
                .missingKey, "the space key file \(path) is larger than \(SpaceKeyRing.maximumBytes >> 10) KiB",
                hint: "Remove old keys that no data is encrypted with any more")
        }
        do {
            return try SpaceKeyRing(text: String(decoding: data, as: UTF8.self))
        } catch {
            throw AnnalsError(
                .missingKey, "\(path) \(error)", hint: "Each line of such a file is the line of a SpaceKey",
                commandHint: "annals key new creates such a file")
        }
    }
}

extension ReplicaState {
    /// The space's keys; nil if the space is not encrypted.
    ///
    /// - Parameter given: The keys that the program gave. They have priority over the file.
    /// - Throws: `AnnalsError` with code `missingKey` if there are no keys, or only keys of other spaces.
    package func ring(_ given: SpaceKeyRing?, operation: String) throws(AnnalsError) -> SpaceKeyRing? {
        guard let sealedUnder else { return nil }
        var ring = given
        if ring == nil, let spaceKeyFile { ring = try SpaceKeyFile.read(spaceKeyFile) }
        guard let ring else { throw .keyNeeded(for: space, sealedUnder, operation: operation) }
        guard ring.key(sealedUnder) != nil else { throw .otherKey(for: space, sealedUnder, spaceKeyFile, operation: operation) }
        return ring
    }

    /// Seals and opens the data of the space. nil and errors as for `ring`.
    package func cipher(_ given: SpaceKeyRing?, operation: String) throws(AnnalsError) -> SpaceCipher? {
        try ring(given, operation: operation)?.cipher(for: space)
    }
}

extension AnnalsError {
    /// The space is encrypted and no key is given.
    package static func keyNeeded(for space: SpaceName, _ id: UInt64, operation: String) -> AnnalsError {
        AnnalsError(
            .missingKey, operation: operation, "the space \(space) is encrypted with the key \(SpaceKey.name(of: id)), and no key is given",
            hint: "Give the space's keys in SpaceAddress.spaceKeys and Store.Configuration.spaceKeys; nothing was changed",
            commandHint: operation == "sync"
                ? "Open the store with the key, or leave and join again with --space-key-file; nothing was changed"
                : "Give the space's key file with --space-key-file; nothing was changed")
    }

    /// The space is encrypted and none of the given keys is its key.
    package static func otherKey(for space: SpaceName, _ id: UInt64, _ file: String?, operation: String) -> AnnalsError {
        AnnalsError(
            .missingKey, operation: operation,
            "the space \(space) is encrypted with the key \(SpaceKey.name(of: id)), which is not in \(file ?? "the given keys")",
            hint: "Get the space's key file from another replica, then try again; nothing was changed")
    }

    /// A key is given for a space that is not encrypted, so that its relay can read it.
    package static func notSealed(_ space: SpaceName, operation: String) -> AnnalsError {
        AnnalsError(
            .configuration, operation: operation, "the space \(space) is not encrypted: its relay can read it even if a key is given",
            hint: "Give no spaceKeys, or create a new space with them; nothing was changed",
            commandHint: "Omit --space-key-file, or create a new space with it; nothing was changed")
    }
}
