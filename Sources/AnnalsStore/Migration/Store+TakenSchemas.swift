import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsWire
import GRDB

extension Store {
    /// Makes what the space's schema has and this store lacks, where it takes that from the log. What was kept goes into the rows
    /// next. False where there was nothing to do.
    func takeSchemas() async throws -> Bool {
        guard configuration.newSchemas != .wait else { return false }
        let taking = configuration.newSchemas
        return try await managed("sync") { db, step in
            guard try taking == .take || NewSchemas.ofSpace(db) == .take, let space = try SpaceSchema.load(db) else { return false }
            try step.seal()
            let behind = try step.schemaStanding().behind
            let isCalledOtherwise = try !PresentNames.differing(db, space, step.tables()).isEmpty
            guard !behind.isEmpty || isCalledOtherwise, try !RowsInDoubt.isNoted(db), try !Push.isUnderWay(db) else { return false }
            // What waits in history is older than what is made now.
            try step.filler().fill()
            if !behind.isEmpty {
                try TakenSchemas.make(space.additions(behind), space, db, step.environment)
                try step.seal()
                step.forgetStanding()
            }
            let isRenamed = try PresentNames.take(PresentNames.differing(db, space, step.tables()), db, step)
            step.forgetStanding()
            return try isRenamed || step.schemaStanding().behind != behind
        }
    }
}
