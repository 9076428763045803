/// A command that handles signals itself, so that its task is not cancelled.
protocol HandlesSignals {}

/// A command that may run until it is stopped. Being stopped is then its normal end.
protocol GoesOnUntilStopped {
    /// Whether it runs until it is stopped, given its arguments.
    var goesOnUntilStopped: Bool { get }
}
