internal import CZstd

/// Packs bytes as a stream, with constant memory.
package struct StreamCompressor: ~Copyable {
    private let context: OpaquePointer
    private var buffer: [UInt8]

    /// - Parameter expecting: the number of bytes, if it is known. Then the frame states it, and packing takes no more
    ///   memory than these bytes need.
    /// - Throws: `tooLarge` if memory runs out.
    package init(level: Int = Compression.snapshotLevel, expecting byteCount: Int? = nil) throws(WireError) {
        guard let context = ZSTD_createCCtx() else { throw .tooLarge("memory") }
        self.context = context
        Compression.setLevel(level, of: context)
        if let byteCount { ZSTD_CCtx_setPledgedSrcSize(context, UInt64(byteCount)) }
        buffer = [UInt8](repeating: 0, count: ZSTD_CStreamOutSize())
    }

    deinit {
        ZSTD_freeCCtx(context)
    }

    /// Packs some bytes and passes on the output that is ready.
    package mutating func write(_ input: UnsafeRawBufferPointer, to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        try run(input, ZSTD_e_continue, to: output)
    }

    /// Passes on the rest of the output.
    package mutating func finish(to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        try run(UnsafeRawBufferPointer(start: nil, count: 0), ZSTD_e_end, to: output)
    }

    private mutating func run(
        _ bytes: UnsafeRawBufferPointer, _ directive: ZSTD_EndDirective, to output: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let context = context
        try buffer.withUnsafeMutableBytes { space in
            var input = ZSTD_inBuffer(src: bytes.baseAddress, size: bytes.count, pos: 0)
            var rest = 0
            repeat {
                var packed = ZSTD_outBuffer(dst: space.baseAddress, size: space.count, pos: 0)
                rest = ZSTD_compressStream2(context, &packed, &input, directive)
                guard ZSTD_isError(rest) == 0 else { throw WireError.tooLarge("memory") }
                if packed.pos > 0 { try output(UnsafeRawBufferPointer(rebasing: space[..<packed.pos])) }
            } while input.pos < input.size || (directive == ZSTD_e_end && rest != 0)
        }
    }
}

/// Unpacks bytes as a stream, with constant memory, up to a size.
package struct StreamDecompressor: ~Copyable {
    private let context: OpaquePointer
    private var buffer: [UInt8]
    private let maximumBytes: Int64
    private var isComplete = false
    /// The number of bytes passed on so far.
    package private(set) var count: Int64 = 0

    /// - Parameter maximumBytes: the largest output. A larger one is refused, even if the packed bytes announce it.
    package init(maximumBytes: Int64) throws(WireError) {
        guard let context = ZSTD_createDCtx() else { throw .tooLarge("memory") }
        self.context = context
        ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, Int32(WireLimits.maximumWindowLog))
        buffer = [UInt8](repeating: 0, count: ZSTD_DStreamOutSize())
        self.maximumBytes = maximumBytes
    }

    deinit {
        ZSTD_freeDCtx(context)
    }

    /// Unpacks some bytes and passes on the output.
    ///
    /// Throws `badValue` if the bytes are not zstd, `badLength` for bytes after the end of the frame, and `tooLarge`
    /// beyond the maximum.
    package mutating func write(_ bytes: UnsafeRawBufferPointer, to output: (UnsafeRawBufferPointer) throws -> Void) throws {
        guard !bytes.isEmpty else { return }
        if isComplete { throw WireError.badLength }
        var input = ZSTD_inBuffer(src: bytes.baseAddress, size: bytes.count, pos: 0)
        var rest = 1
        var isFull = false
        repeat {
            (rest, isFull) = try step(&input, to: output)
        } while rest != 0 && (input.pos < input.size || isFull)
        isComplete = rest == 0
        if isComplete, input.pos < input.size { throw WireError.badLength }
    }

    /// Throws `truncated` if the end of the frame has not arrived.
    package func finish() throws(WireError) {
        guard isComplete else { throw .truncated }
    }

    private mutating func step(
        _ input: inout ZSTD_inBuffer, to output: (UnsafeRawBufferPointer) throws -> Void
    ) throws -> (rest: Int, isFull: Bool) {
        let context = context
        let room = maximumBytes - count
        let result = try buffer.withUnsafeMutableBytes { space in
            var plain = ZSTD_outBuffer(dst: space.baseAddress, size: space.count, pos: 0)
            let rest = ZSTD_decompressStream(context, &plain, &input)
            guard ZSTD_isError(rest) == 0 else { throw WireError.badValue("compressed bytes") }
            guard Int64(plain.pos) <= room else { throw WireError.tooLarge("file") }
            if plain.pos > 0 { try output(UnsafeRawBufferPointer(rebasing: space[..<plain.pos])) }
            return (rest: rest, written: plain.pos, isFull: plain.pos == plain.size)
        }
        count += Int64(result.written)
        return (result.rest, result.isFull)
    }
}
