import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsWire
import GRDB

extension Store.Configuration {
    var identities: NewIdentities { NewIdentities(random: random) }
}

extension StoreStep {
    init(_ db: Database, _ configuration: Store.Configuration, _ schema: SchemaCache = SchemaCache()) {
        let identities = configuration.identities
        var environment = CaptureEnvironment(
            now: configuration.now, makeTransactionID: { identities.next() }, makeStoreID: { identities.next() },
            processName: configuration.process)
        environment.largeValue = configuration.largeValue
        self.init(
            db, environment: environment, outboxLimits: configuration.outboxLimits, identities: identities,
            spaceKeys: configuration.spaceKeys, schema: schema)
    }
}
