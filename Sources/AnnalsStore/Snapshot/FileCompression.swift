public import AnnalsCore
public import AnnalsWire

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#else
    internal import Darwin
#endif

extension Compression {
    /// What was read and written, and what the packed file's digest is.
    public struct FileResult: Hashable, Sendable {
        public var plainBytes: Int64
        public var packedBytes: Int64
        /// SHA-256 of the packed file.
        public var digest: Digest
    }

    /// Packs a file into another, which is replaced if it exists. Memory stays flat whatever their size.
    ///
    /// `progress` is told the bytes read so far; what it throws ends the work. Throws `AnnalsError` where a file cannot
    /// be read or written; what was written then is left for the caller to remove.
    public static func compressFile(
        at source: String, to destination: String, level: Int = snapshotLevel, progress: (Int64) throws -> Void = { _ in }
    ) throws -> FileResult {
        let input = try FileStream(reading: source)
        let output = try FileStream(writing: destination)
        var compressor = try StreamCompressor(level: level)
        var hasher = Digest.Hasher()
        var result = FileResult(plainBytes: 0, packedBytes: 0, digest: .zero)
        func write(_ packed: UnsafeRawBufferPointer) throws {
            hasher.update(packed)
            result.packedBytes += Int64(packed.count)
            try output.write(packed)
        }
        try input.readAll { chunk in
            result.plainBytes += Int64(chunk.count)
            try compressor.write(chunk, to: write)
            try progress(result.plainBytes)
        }
        try compressor.finish(to: write)
        try output.close()
        result.digest = hasher.finish()
        return result
    }

    /// Unpacks a file into another, which is replaced if it exists; never more than `maximumBytes`.
    ///
    /// Throws `WireError` where the bytes are damaged, incomplete or too many; otherwise as `compressFile`.
    public static func decompressFile(
        at source: String, to destination: String, maximumBytes: Int64, progress: (Int64) throws -> Void = { _ in }
    ) throws -> FileResult {
        let input = try FileStream(reading: source)
        let output = try FileStream(writing: destination)
        var decompressor = try StreamDecompressor(maximumBytes: maximumBytes)
        var hasher = Digest.Hasher()
        var result = FileResult(plainBytes: 0, packedBytes: 0, digest: .zero)
        try input.readAll { chunk in
            hasher.update(chunk)
            result.packedBytes += Int64(chunk.count)
            try decompressor.write(chunk, to: output.write)
            try progress(result.packedBytes)
        }
        try decompressor.finish()
        try output.close()
        result.plainBytes = decompressor.count
        result.digest = hasher.finish()
        return result
    }
}

/// A file read or written from its beginning to its end.
private final class FileStream {
    private static let chunkBytes = 256 << 10

    private var descriptor: Int32
    private let path: String

    init(reading path: String) throws {
        self.path = path
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(.fileNotFound, "cannot be read") }
    }

    init(writing path: String) throws {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw failure(.cannotCreate, "cannot be created") }
    }

    deinit {
        if descriptor >= 0 { _ = closeDescriptor(descriptor) }
    }

    func readAll(_ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        try withUnsafeTemporaryAllocation(byteCount: Self.chunkBytes, alignment: 16) { space in
            while true {
                let count = read(descriptor, space.baseAddress, space.count)
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw failure(.fileNotFound, "cannot be read") }
                if count == 0 { return }
                try body(UnsafeRawBufferPointer(rebasing: space[..<count]))
            }
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest)
            let count = writeDescriptor(descriptor, part.baseAddress, part.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(errno == ENOSPC ? .diskFull : .cannotCreate, "cannot be written") }
            rest = rest.dropFirst(count)
        }
    }

    /// Makes what was written durable and closes the file.
    func close() throws {
        guard fsync(descriptor) == 0 else { throw failure(errno == ENOSPC ? .diskFull : .cannotCreate, "cannot be written") }
        let result = closeDescriptor(descriptor)
        descriptor = -1
        guard result == 0 else { throw failure(.cannotCreate, "cannot be written") }
    }

    private func failure(_ code: AnnalsError.Code, _ what: String) -> AnnalsError {
        let reason = String(cString: strerror(errno))
        return AnnalsError(code, operation: "snapshot", "\(path) \(what): \(reason)")
    }
}

// The class's own verbs hide the system's calls of the same name.

private func closeDescriptor(_ descriptor: Int32) -> Int32 {
    close(descriptor)
}

private func writeDescriptor(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
    write(descriptor, bytes, count)
}
