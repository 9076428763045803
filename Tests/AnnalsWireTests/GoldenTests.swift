import AnnalsCore
import AnnalsWire
import Foundation
import Testing

/// The format does not change by accident: what was written once is written again, and means the same in a language
/// that knows only the document.
@Suite struct GoldenTests {
    @Test func `the same inputs give the same bytes as ever`() throws {
        for fixture in try Fixture.all() {
            if Fixture.isWriting {
                try FileManager.default.createDirectory(at: Fixture.folder, withIntermediateDirectories: true)
                try Data(fixture.bytes).write(to: fixture.bytesURL)
                try Data((Samples.spaceKey.line + "\n").utf8).write(to: Fixture.keyURL)
                try Data((fixture.json + "\n").utf8).write(to: fixture.jsonURL)
            }
            let stored = [UInt8](try Data(contentsOf: fixture.bytesURL))
            if fixture.isExact { #expect(stored == fixture.bytes, "\(fixture)") }
            #expect(try String(contentsOf: fixture.jsonURL, encoding: .utf8) == fixture.json + "\n", "\(fixture)")
        }
        if Fixture.isWriting { try Data((HashCases.json() + "\n").utf8).write(to: HashCases.url) }
        #expect(try String(contentsOf: HashCases.url, encoding: .utf8) == HashCases.json() + "\n")
    }

    @Test(arguments: ["batch-plain", "batch-zstd"])
    func `stored batches give the inputs`(name: String) throws {
        let batch = try Batch.open(Self.stored(name))
        #expect(batch.header.certificates.map(\.digest) == (try Samples.batch(codec: .plain).digests))
        #expect(batch.header.certificates.map(\.footprint) == Samples.footprints)
        #expect(batch.layouts == [3: Samples.people, 200: Samples.seats])
        let first = try decodeChanges(batch.plain, range: batch.bodyRange(0))
        #expect(first.map(\.ref) == Samples.firstChanges.map(\.ref))
        #expect(first.map(\.changes) == Samples.firstChanges.map(\.changes))
        var second = try batch.body(1)
        #expect(second.info == Samples.secondInfo)
        #expect(try second.journalEntries() == Samples.journal)
        let values = try decodeChanges(batch.plain, range: batch.bodyRange(1))
        #expect(values.map(\.changes) == [[MarkedChange(.insert(Samples.everyValue))]])
        var third = try batch.body(2)
        #expect(try third.schemaEntry() == Samples.schema)
    }

    @Test func `stored decisions give the inputs`() throws {
        var body = try Batch.open(Self.stored("batch-decisions")).body(0)
        let rest = BodyReader.Rest(policies: Samples.policies, resolutions: Samples.resolutions, references: Samples.references)
        #expect(try body.rest() == rest)
    }

    @Test func `stored footprints, pages and answers give the inputs`() throws {
        #expect(try Footprint.decode(Self.stored("footprint-precise")) == Samples.footprints[0])
        #expect(try Footprint.decode(Self.stored("footprint-whole")) == Samples.footprints[1])
        #expect(try Footprint.decode(Self.stored("footprint-everything")) == .everything)
        #expect(try Footprint.decode(Self.stored("footprint-empty")) == Footprint())
        #expect(try Footprint.decode(Self.stored("footprint-other-rules")) == Footprint(rules: 700, keyID: .max))
        #expect(try Page.decode(Self.stored("page")) == Samples.page)
        for (name, answer) in Samples.answers { #expect(try PushAnswer.decode(Self.stored("answer-" + name)) == answer) }
    }

    @Test func `a decoder in Python reads every fixture as meant`() throws {
        let fixtures = try Fixture.all()
        let decoded = try Self.python(fixtures.map(\.bytesURL.path))
        #expect(decoded.count == fixtures.count)
        for (fixture, text) in zip(fixtures, decoded) {
            let (expected, found) = try (Self.object(fixture.json), Self.object(text))
            #expect(expected == found, "\(fixture): \(text)")
        }
    }

    @Test func `Python computes the same footprint hashes`() throws {
        let decoded = try Self.python([HashCases.url.path])
        #expect(try Self.object(decoded.first ?? "") == Self.object(HashCases.json()))
    }

    @Test func `Python notices damage, other content and wrong footprints`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-golden-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let original = try Self.stored("batch-plain")
        var damaged = original
        damaged[100] ^= 1
        var foreign = original
        let place = try #require(foreign.firstRange(of: [UInt8](repeating: UInt8(ascii: "y"), count: 64))).lowerBound
        foreign[place] = UInt8(ascii: "z")
        Tampering.resign(&foreign)
        var unsealed = try Self.stored("batch-sealed")
        unsealed[try BatchHeader.parse(unsealed).payload.lowerBound + 40] ^= 1
        Tampering.resign(&unsealed)
        var torn = try Self.stored("snapshot-sealed")
        torn[70_000 - 65_536] ^= 1
        var encoder = BatchEncoder(
            lineage: Samples.lineage, signer: Samples.key, firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1)
        encoder.layout(ref: 3, Samples.people)
        encoder.layout(ref: 200, Samples.seats)
        encoder.append(body: Samples.firstBody, base: .zero, footprint: Footprint())
        let unhashed = try encoder.finish().bytes
        let cases = [
            ("damaged", damaged, "checksum"), ("cut", Array(original.dropLast()), "checksum"), ("foreign", foreign, "digest"),
            ("unsealed", unsealed, "seal"), ("torn", torn, "seal"), ("short", Array(torn.prefix(101 + 65_552)), "seal"),
            ("batch-hashed-not", unhashed, "footprint too small"),
        ]
        for (name, bytes, reason) in cases {
            let url = folder.appendingPathComponent(name + ".bin")
            try Data(bytes).write(to: url)
            let decoded = try Self.python([url.path])
            #expect(decoded.first?.contains(#""error""#) == true && decoded.first?.contains(reason) == true, "\(decoded)")
        }
    }

    private static func stored(_ name: String) throws -> [UInt8] {
        [UInt8](try Data(contentsOf: Fixture.folder.appendingPathComponent(name + ".bin")))
    }

    private static func object(_ json: String) throws -> NSDictionary? {
        try JSONSerialization.jsonObject(with: Data(json.utf8)) as? NSDictionary
    }

    /// What the decoder prints: a line of JSON for each file.
    private static func python(_ files: [String]) throws -> [String] {
        let keys = ["--key", Fixture.keyURL.path, "--space", Samples.space]
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", Fixture.testFolder.appendingPathComponent("decode_batch.py").path] + keys + files
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}
