import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsWire
import GRDB

extension Store {
    /// Creates tables and columns that the space's schema has and this store lacks, if the store adopts them from the log. Their
    /// deferred values are applied next. Returns false if there was nothing to do.
    func adoptSchema() async throws -> Bool {
        guard configuration.newSchemas != .wait else { return false }
        let taking = configuration.newSchemas
        return try await managed("sync") { db, step in
            guard try taking == .take || NewSchemas.ofSpace(db) == .take, let space = try SpaceSchema.load(db) else { return false }
            try step.recordExternal()
            let behind = try step.schemaComparison().behind
            let isCalledOtherwise = try !CurrentNames.differing(db, space, step.tables()).isEmpty
            guard !behind.isEmpty || isCalledOtherwise, try !UnverifiedRows.isNoted(db), try !Push.isUnderWay(db) else { return false }
            // Writes that are still in history are older than the new tables and columns.
            try step.filler().fill()
            if !behind.isEmpty {
                try SchemaAdoption.make(space.additions(behind), space, db, step.environment)
                try step.recordExternal()
                step.forgetComparison()
            }
            let isRenamed = try CurrentNames.take(CurrentNames.differing(db, space, step.tables()), db, step)
            step.forgetComparison()
            return try isRenamed || step.schemaComparison().behind != behind
        }
    }
}
