import AnnalsCore
public import AnnalsReplica
public import AnnalsStore
public import Logging

extension SyncAgent {
    /// An agent that makes the store a replica of a space over HTTP, if it is not one yet, and then syncs it.
    ///
    /// - Parameters:
    ///   - store: the store.
    ///   - address: the address of the space.
    ///   - existing: how to merge rows that differ from those of an existing space. `.sameKey` is right for an app that
    ///     opens its store with the tables it needs, and may find that the space has rows already.
    ///   - schema: which differences from the schema of an existing space are allowed. `.additions` is right for an app
    ///     with several versions in one space.
    ///   - references: if the space is new, what happens to columns that look like references to other tables although the
    ///     schema does not declare them. If nil, the join is refused until `Store.setReferences(_:author:)` has decided
    ///     about them. An app that has no such columns, or that has decided about its own, passes `.ignore`, so that the
    ///     rows of no user can refuse the join.
    ///   - logger: gets important events.
    /// - Throws: `AnnalsError` with code `usage` if the address is not valid.
    public init(
        store: Store, joining address: SpaceAddress, existing: ExistingRows? = nil, schema: JoinedSchema = .equal,
        references: SuggestedReferences? = nil, logger: Logger = Logger(label: "annals.sync")
    ) throws {
        try self.init(
            store: store, transport: address.transport(), joining: address, existing: existing, schema: schema, references: references,
            logger: logger)
    }

    /// Joins the space of the agent's address, if the store is not a replica yet. Each exchange starts with it.
    ///
    /// Calls of an actor interleave at each `await`. So one call joins, and the others wait for it.
    func joinIfNeeded() async throws {
        guard let home else { return }
        while joiningGate.isPaused { _ = try await joiningGate.waitUntilResumed() }
        joiningGate.set(isPaused: true)
        defer { joiningGate.set(isPaused: false) }
        if try await isJoined(to: home.address.space) { return }
        let joining = home.address.joining(over: transport, store.configuration, environment, progress)
        do {
            _ = try await joining.join(store, existing: home.existing, schema: home.schema, references: home.references)
        } catch let error as AnnalsError where error.code == .alreadyJoined {
            // Another agent has joined it a moment ago.
            guard try await isJoined(to: home.address.space) else { throw error }
        }
        logger.notice("joined the space \(home.address.space)")
    }

    private func isJoined(to space: SpaceName) async throws -> Bool {
        guard let state = try await store.replicaState(), try await store.creationStage() == nil else { return false }
        guard state.space == space else { throw Self.anotherSpace(state.space, space) }
        return true
    }

    /// An app that gets another address must not move its rows to another space by this.
    private static func anotherSpace(_ joined: SpaceName, _ given: SpaceName) -> AnnalsError {
        AnnalsError(
            .alreadyJoined, operation: "join", "the store belongs to the space \(joined), not to \(given)",
            hint: "Nothing was changed. Call leave() first to move its rows to another space, or open another store")
    }
}
