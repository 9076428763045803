import CCurl

/// libcurl's callbacks as C functions. Each gets its transfer from the context pointer. The pointer is valid because
/// the loop keeps a transfer as long as its handle is added.
struct TransferCallbacks {
    typealias DataFunction = @convention(c) (UnsafeMutablePointer<CChar>?, Int, Int, UnsafeMutableRawPointer?) -> Int

    let prerequest: curl_prereq_callback
    let header: DataFunction
    let body: DataFunction
    let upload: DataFunction
    let seek: curl_seek_callback

    static let transfer = TransferCallbacks(
        prerequest: { context, _, _, _, _ in
            guard let transfer = Transfer.at(context) else { return CURL_PREREQFUNC_ABORT }
            transfer.willSend()
            return CURL_PREREQFUNC_OK
        },
        header: { bytes, size, count, context in
            guard let transfer = Transfer.at(context) else { return failure }
            return transfer.acceptHeader(UnsafeRawBufferPointer(start: bytes, count: size * count)) ? size * count : failure
        },
        body: { bytes, size, count, context in
            guard let transfer = Transfer.at(context) else { return failure }
            return transfer.acceptBody(UnsafeRawBufferPointer(start: bytes, count: size * count)) ? size * count : failure
        },
        upload: { bytes, size, count, context in
            let buffer = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
            return Transfer.at(context)?.readBody(into: buffer) ?? Int(CURL_READFUNC_ABORT)
        },
        seek: { context, offset, origin in
            guard let transfer = Transfer.at(context), origin == 0 else { return CURL_SEEKFUNC_CANTSEEK }
            return transfer.seekBody(to: Int64(offset)) ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL
        }
    )
}

/// libcurl ends the transfer for any count other than the offered one.
private let failure = -1

extension Transfer {
    fileprivate static func at(_ context: UnsafeMutableRawPointer?) -> Transfer? {
        context.map { Unmanaged<Transfer>.fromOpaque($0).takeUnretainedValue() }
    }
}
