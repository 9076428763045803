import AnnalsCore
public import AnnalsReplica
public import AnnalsStore
public import Logging

extension SyncAgent {
    /// An agent that makes the store a replica of a space over HTTP, where it is none yet, and then keeps it in step.
    ///
    /// - Parameters:
    ///   - store: the store.
    ///   - address: the relay's base address.
    ///   - existing: what becomes of rows that differ from those of a space that exists. `.sameKey` fits an app that opens
    ///     its store with the tables it needs, and then finds out that there is a space with rows already.
    ///   - schema: what the store may declare otherwise than a space that exists. `.additions` fits an app whose versions meet in one space.
    ///   - logger: told what is noteworthy.
    /// - Throws: `AnnalsError` with code `usage` when the address is not one.
    public init(
        store: Store, joining address: SpaceAddress, existing: ExistingRows? = nil, schema: JoinedSchema = .equal,
        logger: Logger = Logger(label: "annals.sync")
    ) throws {
        try self.init(store: store, transport: address.transport(), joining: address, existing: existing, schema: schema, logger: logger)
    }

    /// Joins the space that the agent was given, where the store is no replica yet. Each exchange begins with it.
    ///
    /// One call joins, and others wait for it: an actor's calls pass each other wherever they wait.
    func joinIfNeeded() async throws {
        guard let home else { return }
        while joiningGate.isPaused { _ = try await joiningGate.waitUntilResumed() }
        joiningGate.set(isPaused: true)
        defer { joiningGate.set(isPaused: false) }
        if try await isJoined(to: home.address.space) { return }
        let joining = home.address.joining(over: transport, store.configuration, environment, progress)
        do {
            _ = try await joining.join(store, existing: home.existing, schema: home.schema)
        } catch let error as AnnalsError where error.code == .alreadyJoined {
            // By another agent, a moment ago.
            guard try await isJoined(to: home.address.space) else { throw error }
        }
        logger.notice("joined the space \(home.address.space)")
    }

    private func isJoined(to space: SpaceName) async throws -> Bool {
        guard let state = try await store.replicaState(), try await store.creationStage() == nil else { return false }
        guard state.space == space else { throw Self.anotherSpace(state.space, space) }
        return true
    }

    /// Rows are never brought from one space to another because an app was given another address.
    private static func anotherSpace(_ joined: SpaceName, _ given: SpaceName) -> AnnalsError {
        AnnalsError(
            .alreadyJoined, operation: "join", "the store belongs to the space \(joined), not to \(given)",
            hint: "Nothing was changed. Call leave() first to bring its rows to another space, or open another store")
    }
}
