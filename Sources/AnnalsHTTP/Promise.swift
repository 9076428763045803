import Synchronization

/// A value that the client's thread sets once and that one task awaits.
final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case empty
        case awaited(CheckedContinuation<Value, Never>)
        case fulfilled(Value)
    }

    private let state = Mutex(State.empty)

    /// Sets the value. Later values are ignored.
    func fulfil(_ value: Value) {
        let waiting: CheckedContinuation<Value, Never>? = state.withLock { state in
            switch state {
            case .empty:
                state = .fulfilled(value)
                return nil
            case .awaited(let continuation):
                state = .fulfilled(value)
                return continuation
            case .fulfilled:
                return nil
            }
        }
        waiting?.resume(returning: value)
    }

    var value: Value {
        get async {
            await withCheckedContinuation { continuation in
                let known: Value? = state.withLock { state in
                    switch state {
                    case .empty:
                        state = .awaited(continuation)
                        return nil
                    case .awaited:
                        // This is an error of the caller. No server can cause it.
                        preconditionFailure("a promise is awaited by one task")
                    case .fulfilled(let value):
                        return value
                    }
                }
                if let known { continuation.resume(returning: known) }
            }
        }
    }
}
