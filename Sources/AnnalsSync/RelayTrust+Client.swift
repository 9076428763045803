public import AnnalsHTTP
public import AnnalsReplica
import AnnalsStore

extension HTTPClient.Configuration {
    /// The configuration of a client for a relay with this trust.
    public init(trust: RelayTrust) {
        self.init(caFile: trust.caFile, pinnedKeys: trust.pins)
    }
}
