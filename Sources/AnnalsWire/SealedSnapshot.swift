internal import Crypto
internal import Foundation

/// Seals the bytes of a snapshot as a stream, with constant memory.
package struct SnapshotSealer {
    private let key: SymmetricKey
    private var head: [UInt8]
    private var waiting: [UInt8] = []
    private var count: UInt64 = 0

    /// - Throws: `WireError.missingKey`.
    package init(_ cipher: SpaceCipher, _ seal: SnapshotSeal) throws(WireError) {
        key = seal.key(try cipher.keys(seal.keyID))
        head = seal.bytes
    }

    package mutating func write(_ bytes: UnsafeRawBufferPointer, to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        try writeHead(to: output)
        var rest = bytes[...]
        while !rest.isEmpty {
            // A full piece is kept until more bytes arrive, because the last piece is sealed differently.
            if waiting.count == SnapshotSeal.pieceBytes { try seal(isLast: false, to: output) }
            let part = rest.prefix(SnapshotSeal.pieceBytes - waiting.count)
            waiting.append(contentsOf: UnsafeRawBufferPointer(rebasing: part))
            rest = rest.dropFirst(part.count)
        }
    }

    package mutating func finish(to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        try writeHead(to: output)
        try seal(isLast: true, to: output)
    }

    private mutating func writeHead(to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        guard !head.isEmpty else { return }
        try head.withUnsafeBytes(output)
        head = []
    }

    private mutating func seal(isLast: Bool, to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        let nonce = try ChaChaPoly.Nonce(data: SnapshotSeal.nonce(count, isLast: isLast))
        let box = try ChaChaPoly.seal(waiting, using: key, nonce: nonce)
        try ([UInt8](box.ciphertext) + [UInt8](box.tag)).withUnsafeBytes(output)
        waiting.removeAll(keepingCapacity: true)
        count += 1
    }
}

/// Opens the bytes of a snapshot as a stream. With a key it accepts only sealed snapshots, and without a key only plain
/// ones. All output of a sealed snapshot is authenticated. Only `finish` authenticates the end.
package struct SnapshotOpener {
    private enum State {
        case head
        case plain
        case sealed(SymmetricKey)
    }

    private let cipher: SpaceCipher?
    private var state = State.head
    private var waiting: [UInt8] = []
    private var count: UInt64 = 0
    /// The head of the snapshot, as soon as it has arrived. nil for a plain snapshot.
    package private(set) var seal: SnapshotSeal?

    package init(_ cipher: SpaceCipher?) {
        self.cipher = cipher
    }

    /// - Throws: `WireError.missingKey`, `notSealed` or `badSeal`, and the errors of `output`.
    package mutating func write(_ bytes: UnsafeRawBufferPointer, to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        switch state {
        case .plain:
            try output(bytes)
        case .head:
            waiting.append(contentsOf: bytes)
            try begin(to: output)
        case .sealed(let key):
            try take(bytes, key, to: output)
        }
    }

    /// - Throws: `WireError.truncated` if the end is missing, `badSeal`, and the errors of `output`.
    package mutating func finish(to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        switch state {
        case .plain: return
        case .head:
            // So few bytes arrived that the kind of the snapshot is not known yet.
            guard cipher == nil, !waiting.starts(with: SnapshotSeal.magic) else { throw WireError.truncated }
            try waiting.withUnsafeBytes(output)
        case .sealed(let key):
            try open(key, isLast: true, to: output)
        }
    }

    private mutating func begin(to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        guard waiting.count >= SnapshotSeal.magic.count else { return }
        guard waiting.starts(with: SnapshotSeal.magic) else {
            guard cipher == nil else { throw WireError.notSealed }
            state = .plain
            try waiting.withUnsafeBytes(output)
            waiting = []
            return
        }
        guard waiting.count >= SnapshotSeal.byteCount else { return }
        let seal = try SnapshotSeal(Array(waiting.prefix(SnapshotSeal.byteCount)))
        guard let cipher else { throw WireError.missingKey(seal.keyID) }
        let key = seal.key(try cipher.keys(seal.keyID))
        self.seal = seal
        state = .sealed(key)
        let rest = Array(waiting.dropFirst(SnapshotSeal.byteCount))
        waiting = []
        try rest.withUnsafeBytes { try take($0, key, to: output) }
    }

    private mutating func take(
        _ bytes: UnsafeRawBufferPointer, _ key: SymmetricKey, to output: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let pieceBytes = SnapshotSeal.pieceBytes + SpaceCipher.tagBytes
        var rest = bytes[...]
        while !rest.isEmpty {
            if waiting.count == pieceBytes { try open(key, isLast: false, to: output) }
            let part = rest.prefix(pieceBytes - waiting.count)
            waiting.append(contentsOf: UnsafeRawBufferPointer(rebasing: part))
            rest = rest.dropFirst(part.count)
        }
    }

    private mutating func open(_ key: SymmetricKey, isLast: Bool, to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        guard waiting.count >= SpaceCipher.tagBytes else { throw WireError.truncated }
        let plain: Data
        do {
            let box = try ChaChaPoly.SealedBox(
                nonce: ChaChaPoly.Nonce(data: SnapshotSeal.nonce(count, isLast: isLast)),
                ciphertext: waiting.dropLast(SpaceCipher.tagBytes), tag: waiting.suffix(SpaceCipher.tagBytes))
            plain = try ChaChaPoly.open(box, using: key)
        } catch {
            throw WireError.badSeal
        }
        waiting.removeAll(keepingCapacity: true)
        count += 1
        try plain.withUnsafeBytes(output)
    }
}

extension SnapshotSeal {
    /// A key for this file only. It depends on the whole head.
    fileprivate func key(_ keys: SpaceCipher.Derived) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(inputKeyMaterial: keys.snapshot, salt: salt, info: bytes, outputByteCount: 32)
    }
}
