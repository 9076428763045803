public import AnnalsCore
public import AnnalsHTTP
public import AnnalsReplica
public import AnnalsStore

/// Where a space is, and as whom a replica goes there: all that an app says about its relay.
///
///     let address = try SpaceAddress("notes", at: relay, as: "Vera's phone", credential: token)
///     let agent = try SyncAgent(store: store, joining: address, existing: .sameKey)
///     try await agent.run()
public struct SpaceAddress: Sendable {
    public var space: SpaceName
    /// The relay's base address, `http` or `https`.
    public var relay: String
    /// What history, blame and the relay's operator see of this replica. The relay of a sealed space does not learn it.
    public var name: String
    /// The bearer token. It is kept in memory only.
    public var credential: String?
    /// Gives the token as it is now, where it changes while the app runs.
    public var renewal: (@Sendable () -> String?)?
    /// Certificates and keys to trust instead of the system's.
    public var trust: RelayTrust
    /// The keys of a space that is sealed end to end. The store must be opened with them, too.
    public var spaceKeys: SpaceKeyRing?

    /// - Throws: `AnnalsError` with code `usage` where `space` is not 1 to 64 of `A–Z a–z 0–9 . _ -`.
    public init(
        _ space: String, at relay: String, as name: String, credential: String? = nil, renewal: (@Sendable () -> String?)? = nil,
        trust: RelayTrust = RelayTrust(), spaceKeys: SpaceKeyRing? = nil
    ) throws(AnnalsError) {
        guard let space = SpaceName(space) else {
            throw AnnalsError(
                .usage, operation: "connect", "\(space) is not the name of a space", hint: "Give 1 to 64 of A-Z a-z 0-9 . _ -")
        }
        self.space = space
        self.relay = relay
        self.name = name
        self.credential = credential
        self.renewal = renewal
        self.trust = trust
        self.spaceKeys = spaceKeys
    }

    /// The way there over HTTP.
    ///
    /// - Parameter client: one that several ways share; without it they have one each.
    /// - Throws: `AnnalsError` with code `usage` when `relay` is no such address.
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

    /// Makes a new file from the space and opens it: quicker than joining with an empty store, since the rows come by bulk.
    ///
    /// Untracked tables come empty, and so does what a migrator noted of its migrations: an app that has one opens a store of its
    /// own and joins with it. Stages know a clone by its tables.
    ///
    /// - Throws: `AnnalsError`; code `cannotCreate` when the file exists, `spaceNotFound` when there is no such space, `usage` for a
    ///   configuration with a migrator.
    public func clone(
        to path: String, configuration: Store.Configuration = .init(), over transport: (any RelayTransport)? = nil,
        environment: SyncAgent.Environment = .system, progress: @escaping @Sendable (SyncEvent.Transfer.Stage, Int64) -> Void = { _, _ in }
    ) async throws -> Store {
        guard configuration.migrator == nil else {
            throw AnnalsError(
                .usage, operation: "clone", "a clone has the space's tables, and the migrator would make them again",
                hint: "Open a store with the migrator, and join with it")
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
