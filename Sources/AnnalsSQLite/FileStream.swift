import AnnalsCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A file that is read or written from its beginning to its end. Written bytes are not durable.
final class FileStream {
    private static let chunkBytes = 256 << 10

    private var descriptor: Int32
    private let path: String

    init(reading path: String) throws {
        self.path = path
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(.fileNotFound, "cannot be read") }
    }

    /// - Parameter isPrivate: whether only its owner can read a new file. Otherwise it has the permissions of a file that SQLite creates.
    init(writing path: String, isPrivate: Bool = true) throws {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, isPrivate ? 0o600 : 0o644)
        guard descriptor >= 0 else { throw failure(.cannotCreate, "cannot be created") }
    }

    deinit {
        if descriptor >= 0 { _ = closeDescriptor(descriptor) }
    }

    package func readAll(_ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        try withUnsafeTemporaryAllocation(byteCount: Self.chunkBytes, alignment: 16) { space in
            while true {
                let count = readDescriptor(descriptor, space.baseAddress, space.count)
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw failure(.fileNotFound, "cannot be read") }
                if count == 0 { return }
                try body(UnsafeRawBufferPointer(rebasing: space[..<count]))
            }
        }
    }

    /// Reads at most `limit` further bytes.
    package func read(upTo limit: Int64, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        try withUnsafeTemporaryAllocation(byteCount: Self.chunkBytes, alignment: 16) { space in
            var left = limit
            while left > 0 {
                let count = readDescriptor(descriptor, space.baseAddress, Int(min(left, Int64(space.count))))
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw failure(.fileNotFound, "cannot be read") }
                if count == 0 { return }
                left -= Int64(count)
                try body(UnsafeRawBufferPointer(rebasing: space[..<count]))
            }
        }
    }

    package func write(_ bytes: UnsafeRawBufferPointer) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest)
            let count = writeDescriptor(descriptor, part.baseAddress, part.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(errno == ENOSPC ? .diskFull : .cannotCreate, "cannot be written") }
            rest = rest.dropFirst(count)
        }
    }

    package func close() throws {
        let result = closeDescriptor(descriptor)
        descriptor = -1
        guard result == 0 else { throw failure(.cannotCreate, "cannot be written") }
    }

    private func failure(_ code: AnnalsError.Code, _ what: String) -> AnnalsError {
        let reason = String(cString: strerror(errno))
        return AnnalsError(code, operation: "snapshot", "\(path) \(what): \(reason)")
    }
}

// The class's methods hide the system's functions of the same name.

private func closeDescriptor(_ descriptor: Int32) -> Int32 {
    close(descriptor)
}

private func writeDescriptor(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
    write(descriptor, bytes, count)
}

private func readDescriptor(_ descriptor: Int32, _ space: UnsafeMutableRawPointer?, _ count: Int) -> Int {
    read(descriptor, space, count)
}
