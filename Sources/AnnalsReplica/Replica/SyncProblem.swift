package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
public import Foundation
package import GRDB

/// The error that ended the last sync of a store. The next successful sync removes it.
public struct SyncProblem: Hashable, Sendable, Codable {
    /// In milliseconds since 1970.
    package var time: Int64
    /// The raw value of an `AnnalsError.Code`.
    public var code: String
    public var message: String
    /// What to do, with names of the library.
    public var hint: String?
    /// The hint for a user of the command line, if it says something else than `hint`.
    package var commandHint: String?

    /// When a sync first ended with it.
    public var date: Date { Date(timeIntervalSince1970: Double(time) / 1_000) }

    /// nil for an error that says nothing about the store and its relay: the sync was cancelled, or called wrongly.
    package init?(_ error: AnnalsError, time: Int64) {
        guard error.code != .cancelled, error.code != .usage else { return nil }
        self.time = time
        code = error.code.rawValue
        message = String(error.message.prefix(Self.characters))
        hint = error.hint.map { String($0.prefix(Self.characters)) }
        commandHint = error.commandHint.map { String($0.prefix(Self.characters)) }
    }

    /// The limit of each text.
    private static let characters = 2_000

    // MARK: In annals_meta

    /// Throws `Corruption`.
    package static func load(_ db: Database) throws -> SyncProblem? {
        guard let text = try Meta(db).text(.syncProblem) else { return nil }
        guard let problem = try? JSONDecoder().decode(SyncProblem.self, from: Data(text.utf8)), SchemaLimits.facts.contains(problem.time)
        else {
            throw Corruption(Meta.Name.syncProblem)
        }
        return problem
    }

    /// Stores a problem, or that there is none. The same problem as before keeps its time, so that an agent that tries again and again
    /// does not write each time.
    package static func save(_ problem: SyncProblem?, _ db: Database) throws {
        guard let problem else { return try Meta(db).set(.syncProblem, nil) }
        if var known = try? load(db) {
            known.time = problem.time
            if known == problem { return }
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        try Meta(db).set(.syncProblem, String(decoding: encoder.encode(problem), as: UTF8.self))
    }
}
