import AnnalsCore
import AnnalsStore
import Foundation

/// Proof that a relay showed different logs, as a file that others can check.
enum Evidence {
    /// Writes a store's evidence to a new file. Without evidence no file is created.
    ///
    /// - Throws: `AnnalsError` of code cannotCreate: the file exists, or cannot be written.
    static func write(of store: Store, to path: String, _ console: Console) async throws {
        guard let evidence = try await store.logEvidence() else {
            return console.note("there is no evidence against the relay; \(path) was not written")
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        do {
            try encoder.encode(evidence).write(to: URL(fileURLWithPath: path), options: .withoutOverwriting)
        } catch CocoaError.fileWriteFileExists {
            throw AnnalsError(.cannotCreate, "\(path) already exists", hint: "Choose another name")
        } catch {
            throw AnnalsError(.cannotCreate, "\(path) cannot be written", hint: "Check the folder and its permissions")
        }
        console.note("the evidence was written to \(path)")
    }
}
