import Foundation

/// The transfers of a client on Apple's systems, over one URLSession. Its delegate runs on a separate queue.
///
/// Everything happens on that serial queue, as on the client's thread with libcurl. The session's own limits decide how
/// many requests run at once. A redirect is returned as an answer. Cookies and caches are off.
final class TransferLoop: Sendable {
    private let session: URLSession
    private let transfers: Transfers
    private let queue: OperationQueue

    /// - Throws: `tls` if the configuration has its own certificates or pinned keys, because this implementation does
    ///   not support them.
    init(_ configuration: HTTPClient.Configuration) throws(HTTPError) {
        guard configuration.caFile == nil, configuration.pinnedKeys.isEmpty else {
            throw HTTPError(
                .tls, "this system supports only the certificates that it trusts itself, not other certificates or pinned keys",
                certificate: .trustUnusable)
        }
        queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        let options = URLSessionConfiguration.ephemeral
        options.httpShouldSetCookies = false
        options.urlCache = nil
        // Long polls take no place from other requests.
        options.httpMaximumConnectionsPerHost = configuration.activeTransfers + HTTPLimits.longPolls
        options.timeoutIntervalForResource = .infinity
        transfers = Transfers()
        session = URLSession(configuration: options, delegate: transfers, delegateQueue: queue)
    }

    /// There is no thread to run, because the session has its own.
    func run() {}

    func start(_ transfer: Transfer) {
        queue.addOperation { [session, transfers] in transfers.start(transfer, in: session) }
        if let slowest = transfer.request.slowest { watchRate(of: transfer, every: slowest.time / .seconds(2)) }
        guard let timeout = transfer.request.timeout else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + timeout / .seconds(1)) { [weak self] in
            let error = HTTPError(.timeout, "the request to \(transfer.server) timed out", wasSent: true)
            self?.end(transfer, error)
        }
    }

    /// Checks after this time, and again until the transfer has ended, whether its bytes move too slowly.
    private func watchRate(of transfer: Transfer, every seconds: Double) {
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { [weak self] in
            self?.queue.addOperation { [weak self] in
                guard let self, !transfer.hasEnded else { return }
                guard transfer.isTooSlow else { return self.watchRate(of: transfer, every: seconds) }
                let error = HTTPError(.stalled, "the connection to \(transfer.server) is too slow", wasSent: true)
                self.transfers.end(transfer, error)
            }
        }
    }

    /// Ends a transfer with `cancelled`, unless it has already ended.
    func cancel(_ transfer: Transfer) {
        end(transfer, HTTPError(.cancelled, "the request was cancelled", wasSent: true))
    }

    /// Ends all transfers with `closed`. Returns after that.
    func close() async {
        await withCheckedContinuation { continuation in
            requestClose()
            queue.addOperation { continuation.resume() }
        }
    }

    /// Like `close`, but does not wait.
    func requestClose() {
        queue.addOperation { [session, transfers] in
            transfers.close()
            session.invalidateAndCancel()
        }
    }

    private func end(_ transfer: Transfer, _ error: HTTPError) {
        queue.addOperation { [transfers] in transfers.end(transfer, error) }
    }
}

/// The session's delegate.
///
/// `@unchecked Sendable` is safe because only the loop's serial queue calls it.
private final class Transfers: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    private var running: [Int: Transfer] = [:]
    private var isClosed = false

    func start(_ transfer: Transfer, in session: URLSession) {
        guard !isClosed else { return transfer.finish(.failure(Self.closed)) }
        do throws(HTTPError) {
            let task = session.dataTask(with: try transfer.makeRequest())
            transfer.task = task
            running[task.taskIdentifier] = transfer
            task.resume()
        } catch {
            transfer.finish(.failure(error))
        }
    }

    func end(_ transfer: Transfer, _ error: HTTPError) {
        guard !transfer.hasEnded else { return }
        transfer.finish(.failure(error))
        if let task = transfer.task {
            running[task.taskIdentifier] = nil
            task.cancel()
        }
    }

    func close() {
        isClosed = true
        for transfer in running.values { transfer.finish(.failure(Self.closed)) }
        running = [:]
    }

    private static var closed: HTTPError { HTTPError(.closed, "the HTTP client was shut down") }

    // MARK: Called by the session

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse, newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
        totalBytesExpectedToSend: Int64
    ) {
        running[task.taskIdentifier]?.noteSent(Int(bytesSent), totalBytesSent, of: totalBytesExpectedToSend)
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        guard let transfer = running[dataTask.taskIdentifier] else { return completionHandler(.cancel) }
        do throws(HTTPError) {
            try transfer.begin(response)
            completionHandler(.allow)
        } catch {
            completionHandler(.cancel)
            end(transfer, error)
        }
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        guard let transfer = running[dataTask.taskIdentifier] else { return }
        do throws(HTTPError) {
            try transfer.accept(data)
        } catch {
            end(transfer, error)
        }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        running.removeValue(forKey: task.taskIdentifier)?.complete(error)
    }
}
