import Foundation
import Testing

/// The list of what is defended names the tests that hold it, and they are there.
@Suite struct ThreatsDocumentTests {
    @Test func `every suite that the document names exists`() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized
        let text = try String(contentsOf: root.appending(path: "Documentation/threats.md"), encoding: .utf8)
        let named = Set(text.matches(of: /`([A-Za-z]+Tests)`/).map { String($0.output.1) })
        #expect(named.count > 10)
        var found: Set<String> = []
        let files = FileManager.default.enumerator(at: root.appending(path: "Tests"), includingPropertiesForKeys: nil)
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            let code = try String(contentsOf: file, encoding: .utf8)
            found.formUnion(code.matches(of: /struct ([A-Za-z]+Tests)\b/).map { String($0.output.1) })
        }
        #expect(named.subtracting(found).isEmpty)
    }
}
