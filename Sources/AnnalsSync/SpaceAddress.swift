public import AnnalsCore
public import AnnalsHTTP
public import AnnalsReplica
public import AnnalsStore

/// The address of a space and the identity of a replica there. It is everything that an app configures about its relay.
///
///     let address = try SpaceAddress("notes", at: relay, as: "Vera's phone", credential: token)
///     let agent = try SyncAgent(store: store, joining: address, existing: .sameKey)
///     try await agent.run()
public struct SpaceAddress: Sendable {
    public var space: SpaceName
    /// The relay's base address, `http` or `https`.
    public var relay: String
    /// The name of this replica in history, in blame and for the relay's operator. The relay of a sealed space does not
    /// get it.
    public var name: String
    /// The bearer token. It is only kept in memory.
    public var credential: String?
    /// Returns the current token, if it changes while the app runs.
    public var renewal: (@Sendable () -> String?)?
    /// Certificates and keys that are trusted instead of the system's.
    public var trust: RelayTrust
    /// The keys of an end-to-end encrypted space. The store must be opened with them, too.
    public var spaceKeys: SpaceKeyRing?

    /// - Throws: `AnnalsError` with code `usage` if `space` is not 1 to 64 of `A–Z a–z 0–9 . _ -`.
    public init(
        _ space: String, at relay: String, as name: String, credential: String? = nil, renewal: (@Sendable () -> String?)? = nil,
        trust: RelayTrust = RelayTrust(), spaceKeys: SpaceKeyRing? = nil
    ) throws(AnnalsError) {
        guard let space = SpaceName(space) else {
            throw AnnalsError(
                .usage, operation: "connect", "\(space) is not a valid space name", hint: "Use 1 to 64 characters of A-Z a-z 0-9 . _ -")
        }
        self.space = space
        self.relay = relay
        self.name = name
        self.credential = credential
        self.renewal = renewal
        self.trust = trust
        self.spaceKeys = spaceKeys
    }

    /// The HTTP transport to this address.
    ///
    /// - Parameter client: a client that several transports share. If nil, the transport gets its own.
    /// - Throws: `AnnalsError` with code `usage` if `relay` is not an `http` or `https` address.
    public func transport(client: HTTPClient? = nil) throws(AnnalsError) -> HTTPRelay {
        let shared: HTTPClient
        if let client { shared = client } else { shared = try ownClient() }
        return try HTTPRelay(
            address: relay, space: space,
            identity: .init(name: spaceKeys == nil ? name : "", credential: credential, renewal: renewal), client: shared)
    }

    private func ownClient() throws(AnnalsError) -> HTTPClient {
        do {
            return try HTTPClient(.init(trust: trust))
        } catch {
            throw HTTPRelay.translate(error).annalsError
        }
    }

    /// Creates a new file from the space and opens it. This is faster than a join with an empty store, because the rows
    /// are imported in bulk.
    ///
    /// Untracked tables are empty, and so are the records of a migrator about its migrations. An app with a migrator
    /// must open its own store and join with it. Stages recognise a clone by its tables.
    ///
    /// - Throws: `AnnalsError`: `cannotCreate` if the file exists, `spaceNotFound` if the space does not exist, `usage`
    ///   for a configuration with a migrator.
    public func clone(
        to path: String, configuration: Store.Configuration = .init(), over transport: (any RelayTransport)? = nil,
        environment: SyncAgent.Environment = .system, progress: @escaping @Sendable (SyncEvent.Transfer.Stage, Int64) -> Void = { _, _ in }
    ) async throws -> Store {
        guard configuration.migrator == nil else {
            throw AnnalsError(
                .usage, operation: "clone", "a clone already has the space's tables, and the migrator would create them again",
                hint: "Open a store with the migrator, and join the space with it")
        }
        let transport = try transport ?? self.transport()
        _ = try await joining(over: transport, configuration, environment, progress).clone(to: path)
        return try Store(path: path, configuration: configuration)
    }

    func joining(
        over transport: any RelayTransport, _ configuration: Store.Configuration, _ environment: SyncAgent.Environment,
        _ progress: @escaping @Sendable (SyncEvent.Transfer.Stage, Int64) -> Void
    ) -> Joining {
        Joining(
            transport: transport, address: relay, space: space, name: name, trust: trust, spaceKeys: spaceKeys,
            configuration: configuration, environment: environment, progress: progress)
    }
}
