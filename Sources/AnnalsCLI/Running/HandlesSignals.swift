/// A command that ends by itself when it is told to, so that no task needs to be cancelled.
protocol HandlesSignals {}

/// A command that may go on until it is stopped: being stopped is how it ends well.
protocol GoesOnUntilStopped {
    /// Whether it does, as it was called.
    var goesOnUntilStopped: Bool { get }
}
