#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The system's message for an `errno`, such as "No space left on device".
func systemMessage(_ number: Int32) -> String {
    String(cString: strerror(number))
}

/// A file descriptor. If it is owned, it is closed with the last reference.
final class OpenFile: Sendable {
    let descriptor: Int32
    private let isOwned: Bool

    /// Wraps a descriptor that the caller keeps and closes.
    init(borrowing descriptor: Int32) {
        self.descriptor = descriptor
        self.isOwned = false
    }

    /// Opens a file. A created file has mode 0600.
    init(opening path: String, _ flags: Int32, _ what: String) throws(HTTPError) {
        descriptor = retryingInterrupted { open(path, flags | O_CLOEXEC, 0o600) }
        isOwned = true
        guard descriptor >= 0 else { throw Self.failure(what) }
    }

    deinit {
        if isOwned, descriptor >= 0 { close(descriptor) }
    }

    /// The size of the file in bytes. nil if it is not a regular file.
    func size() throws(HTTPError) -> Int64? {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.failure("cannot read the file's size") }
        guard status.st_mode & S_IFMT == S_IFREG else { return nil }
        return Int64(status.st_size)
    }

    /// Reads up to the buffer's size from an offset. Returns 0 at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(HTTPError) -> Int {
        let count = retryingInterrupted { pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset)) }
        guard count >= 0 else { throw Self.failure("cannot read the file to send") }
        return count
    }

    /// Writes all bytes at an offset.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(HTTPError) {
        var done = 0
        while done < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[done...])
            let count = retryingInterrupted { pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset) + off_t(done)) }
            guard count >= 0 else { throw Self.failure("cannot write the downloaded file") }
            done += count
        }
    }

    /// Truncates the file to a length.
    func truncate(to length: Int64) throws(HTTPError) {
        guard retryingInterrupted({ ftruncate(descriptor, off_t(length)) }) == 0 else {
            throw Self.failure("cannot write the downloaded file")
        }
    }

    private static func failure(_ what: String) -> HTTPError {
        let number = errno
        return HTTPError(.localFile, "\(what): \(systemMessage(number))", systemError: number)
    }
}

private func retryingInterrupted<Count: SignedInteger>(_ call: () -> Count) -> Count {
    while true {
        let result = call()
        if result != -1 || errno != EINTR { return result }
    }
}
