import Foundation
import RelayLog
import Testing

/// The list of defences names tests, and these tests exist.
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

/// The list of the contents of the audit log.
@Suite struct AuditDocumentTests {
    @Test func `the document names every kind of line, and the operator's page has words for each`() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized
        let text = try String(contentsOf: root.appending(path: "Documentation/relay.md"), encoding: .utf8)
        let section = text.components(separatedBy: "\n## ").first { $0.hasPrefix("The audit log") } ?? ""
        let page = try String(contentsOf: root.appending(path: "Server/Relay/Admin/Page/audit.js"), encoding: .utf8)
        for action in OperatorAction.allCases {
            #expect(section.contains("`\(action.rawValue)`"), "\(action)")
            #expect(page.contains("'\(action.rawValue)'"), "\(action)")
        }
    }
}
