/// A command that ends by itself when it is told to, so that no task needs to be cancelled.
protocol HandlesSignals {}
