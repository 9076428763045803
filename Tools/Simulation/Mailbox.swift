import Synchronization

/// Passes one message at a time from one task to another task, which waits for it.
final class Mailbox<Message: Sendable>: Sendable {
    private enum State {
        case empty
        case full(Message)
        case awaited(CheckedContinuation<Message, Never>)
    }

    private let state = Mutex(State.empty)

    func put(_ message: Message) {
        let waiting: CheckedContinuation<Message, Never>? = state.withLock { state in
            guard case .awaited(let waiting) = state else {
                state = .full(message)
                return nil
            }
            state = .empty
            return waiting
        }
        waiting?.resume(returning: message)
    }

    func take() async -> Message {
        await withCheckedContinuation { waiting in
            let message: Message? = state.withLock { state in
                guard case .full(let message) = state else {
                    state = .awaited(waiting)
                    return nil
                }
                state = .empty
                return message
            }
            if let message { waiting.resume(returning: message) }
        }
    }
}
