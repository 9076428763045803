internal import CZstd

/// zstd with limits. The caller sets how much unpacking may produce. The packed bytes do not.
package enum Compression {
    /// The level for batches. Packing at this level costs about as much as encoding.
    package static let batchLevel = 1
    /// The level for snapshots. They are made rarely and downloaded often.
    package static let snapshotLevel = 3

    /// Packs the bytes into one zstd frame. Throws `tooLarge` if memory runs out.
    package static func compress(_ bytes: [UInt8], level: Int = batchLevel) throws(WireError) -> [UInt8] {
        guard let context = ZSTD_createCCtx() else { throw .tooLarge("memory") }
        defer { ZSTD_freeCCtx(context) }
        setLevel(level, of: context)
        var failed = false
        let packed = bytes.withUnsafeBytes { input in
            let bound = ZSTD_compressBound(input.count)
            return [UInt8](unsafeUninitializedCapacity: bound) { output, count in
                let result = ZSTD_compress2(context, output.baseAddress, bound, input.baseAddress, input.count)
                failed = ZSTD_isError(result) != 0
                count = failed ? 0 : result
            }
        }
        if failed { throw .tooLarge("memory") }
        return packed
    }

    /// Sets the level. It is limited to 19, so that readers accept the window.
    static func setLevel(_ level: Int, of context: OpaquePointer) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, Int32(clamping: min(level, 19)))
        // zstd's match finder looks for repetitions of seven bytes at this level. Those in a batch are shorter. This
        // setting makes a batch a twelfth smaller and takes no more time.
        if level == batchLevel { ZSTD_CCtx_setParameter(context, ZSTD_c_minMatch, 5) }
    }

    /// Unpacks the one frame in `range` of the bytes. The frame must produce exactly `expected` bytes.
    ///
    /// Memory grows with the bytes that are really unpacked, up to `expected`.
    package static func decompress(_ bytes: [UInt8], range: Range<Int>? = nil, expected: Int) throws(WireError) -> [UInt8] {
        guard let context = ZSTD_createDCtx() else { throw .tooLarge("memory") }
        defer { ZSTD_freeDCtx(context) }
        ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, Int32(WireLimits.maximumWindowLog))
        let range = (range ?? 0..<bytes.count).clamped(to: 0..<bytes.count)
        var plain = [UInt8](repeating: 0, count: min(expected, max(64 << 10, range.count * 16)))
        var written = 0
        var read = range.lowerBound
        while true {
            let before = (read, written)
            let rest = step(context, bytes, &read, range.upperBound, &plain, &written)
            guard ZSTD_isError(rest) == 0 else { throw .badValue("compressed bytes") }
            if rest == 0 { break }
            if written < plain.count {
                // The output has space left, so the input ended within the frame.
                guard read < range.upperBound else { throw .truncated }
            } else if plain.count < expected {
                plain.append(contentsOf: repeatElement(0, count: min(plain.count, expected - plain.count)))
            } else if before == (read, written) {
                throw .badLength
            }
        }
        guard read == range.upperBound, written == expected else { throw .badLength }
        return plain
    }

    /// One call of zstd. Returns its result, which is zero at the end of the frame.
    private static func step(
        _ context: OpaquePointer, _ bytes: [UInt8], _ read: inout Int, _ end: Int, _ plain: inout [UInt8], _ written: inout Int
    ) -> Int {
        bytes.withUnsafeBytes { source in
            plain.withUnsafeMutableBytes { target in
                var input = ZSTD_inBuffer(src: source.baseAddress, size: end, pos: read)
                var output = ZSTD_outBuffer(dst: target.baseAddress, size: target.count, pos: written)
                let rest = ZSTD_decompressStream(context, &output, &input)
                read = input.pos
                written = output.pos
                return rest
            }
        }
    }
}
