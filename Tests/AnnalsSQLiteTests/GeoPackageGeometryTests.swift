import AnnalsSQLite
import Foundation
import GRDB
import SeededRandom
import Testing

/// Geometries as GeoPackages store them.
@Suite struct GeoPackageGeometryTests {
    /// Writes geometries for the tests.
    private struct Bytes {
        var bytes: [UInt8] = []
        var isLittleEndian = true

        static func header(envelope: [Double] = [], isEmpty: Bool = false, isLittleEndian: Bool = true) -> Bytes {
            let code: UInt8 = [0: 0, 4: 1, 6: 2, 8: 4][envelope.count] ?? 0
            var result = Bytes(isLittleEndian: isLittleEndian)
            result.bytes = [0x47, 0x50, 0, (isLittleEndian ? 1 : 0) | code << 1 | (isEmpty ? 0x10 : 0)]
            return result.number(4326).doubles(envelope)
        }

        func number(_ value: UInt32) -> Bytes {
            var result = self
            withUnsafeBytes(of: isLittleEndian ? value.littleEndian : value.bigEndian) { result.bytes += $0 }
            return result
        }

        func doubles(_ values: [Double]) -> Bytes {
            var result = self
            for value in values {
                let bits = value.bitPattern
                withUnsafeBytes(of: isLittleEndian ? bits.littleEndian : bits.bigEndian) { result.bytes += $0 }
            }
            return result
        }

        func shape(_ code: UInt32, isLittleEndian: Bool = true) -> Bytes {
            var result = self
            result.isLittleEndian = isLittleEndian
            result.bytes.append(isLittleEndian ? 1 : 0)
            return result.number(code)
        }
    }

    /// The answers of the five functions.
    private func answers(_ bytes: [UInt8]) throws -> String {
        try DatabaseQueue().read { db in
            SpatialFunctions.install(db)
            let sql = "SELECT ST_IsEmpty(?1), ST_MinX(?1), ST_MaxX(?1), ST_MinY(?1), ST_MaxY(?1)"
            let row = try Row.fetchOne(db, sql: sql, arguments: [bytes.isEmpty ? nil : Data(bytes)])
            return try #require(row).databaseValues.map { "\($0)" }.joined(separator: " ")
        }
    }

    @Test func `the envelope in the header is used if there is one`() throws {
        #expect(try answers(Bytes.header(envelope: [1, 3, 2, 4]).bytes) == "0 1.0 3.0 2.0 4.0")
        #expect(try answers(Bytes.header(envelope: [1, 3, 2, 4, 9, 9], isLittleEndian: false).bytes) == "0 1.0 3.0 2.0 4.0")
    }

    @Test func `without an envelope the coordinates are read`() throws {
        let point = Bytes.header().shape(1, isLittleEndian: false).doubles([7, 8])
        #expect(try answers(point.bytes) == "0 7.0 7.0 8.0 8.0")
        let line = Bytes.header().shape(1_002).number(2).doubles([1, 5, 100, -2, 6, 100])
        #expect(try answers(line.bytes) == "0 -2.0 1.0 5.0 6.0")
        let polygon = Bytes.header().shape(3).number(2).number(3).doubles([0, 0, 4, 0, 4, 4]).number(1).doubles([1, 1])
        #expect(try answers(polygon.bytes) == "0 0.0 4.0 0.0 4.0")
        let collection = Bytes.header().shape(7).number(2).shape(3_001).doubles([9, 9, 0, 0]).shape(4).number(2)
            .shape(1).doubles([1, 2]).shape(1, isLittleEndian: false).doubles([3, -4])
        #expect(try answers(collection.bytes) == "0 1.0 9.0 -4.0 9.0")
    }

    @Test func `arcs have the bounds of their circle`() throws {
        let half = Bytes.header().shape(8).number(3).doubles([-1, 0, 0, 1, 1, 0])
        #expect(try answers(half.bytes) == "0 -1.0 1.0 -1.0 1.0")
        let whole = Bytes.header().shape(8).number(3).doubles([0, 0, 4, 0, 0, 0])
        #expect(try answers(whole.bytes) == "0 0.0 4.0 -2.0 2.0")
        let straight = Bytes.header().shape(8).number(3).doubles([0, 0, 1, 1, 2, 2])
        #expect(try answers(straight.bytes) == "0 0.0 2.0 0.0 2.0")
    }

    @Test func `an empty geometry has no bounds, and other values are no geometry`() throws {
        #expect(try answers(Bytes.header(isEmpty: true).shape(7).number(0).bytes) == "1 NULL NULL NULL NULL")
        #expect(try answers(Bytes.header().shape(1).doubles([.nan, .nan]).bytes) == "0 NULL NULL NULL NULL")
        #expect(try answers(Array("GPS track".utf8)) == "NULL NULL NULL NULL NULL")
        #expect(try answers([]) == "NULL NULL NULL NULL NULL")
        #expect(try answers([0x47, 0x50]) == "NULL NULL NULL NULL NULL")
    }

    @Test func `cut and random bytes are answered, too`() throws {
        let whole = Bytes.header().shape(7).number(2).shape(2).number(2).doubles([1, 2, 3, 4]).shape(1).doubles([5, 6]).bytes
        for count in whole.indices { _ = try answers(Array(whole[..<count])) }
        for seed in Seeds.givenOrNew(20) {
            var random = SeededGenerator(seed: seed)
            for _ in 0..<50 {
                var bytes = whole
                for _ in 0..<Int.random(in: 1...6, using: &random) {
                    bytes[Int.random(in: 3..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
                #expect(throws: Never.self, "ANNALS_SEED=\(seed)") { try answers(bytes) }
            }
        }
    }

    @Test func `functions of the program stay`() throws {
        let own = DatabaseFunction("ST_IsEmpty", argumentCount: 1) { _ in "own" }
        let answer = try DatabaseQueue().read { db in
            db.add(function: own)
            SpatialFunctions.install(db)
            return try String.fetchOne(db, sql: "SELECT ST_IsEmpty(1)")
        }
        #expect(answer == "own")
    }
}
