public import AnnalsHTTP
public import AnnalsReplica
public import AnnalsStore

extension HTTPClient.Configuration {
    /// A client for a relay that is trusted so.
    public init(trust: RelayTrust) {
        self.init(caFile: trust.caFile, pinnedKeys: trust.pins)
    }
}
