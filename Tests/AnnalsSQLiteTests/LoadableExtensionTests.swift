import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsSQLite

@Suite struct LoadableExtensionTests {
    private static func code(_ body: () throws -> Void) -> AnnalsError.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? AnnalsError)?.code
        }
    }

    @Test func `a file that is no extension is refused, and no statement can load one`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let text = folder.appendingPathComponent("text.so").path
        try Data("not a library".utf8).write(to: URL(fileURLWithPath: text))
        try DatabaseQueue().inDatabase { db in
            #expect(Self.code { try LoadableExtension.load(text, on: db) } == .configuration)
            #expect(Self.code { try LoadableExtension.load(folder.path, on: db) } == .configuration)
            #expect(Self.code { try LoadableExtension.load(text + ".so", on: db) } == .fileNotFound)
            let error = #expect(throws: DatabaseError.self) { try db.execute(sql: "SELECT load_extension(?)", arguments: [text]) }
            #expect(error?.message == "not authorized")
        }
    }
}
