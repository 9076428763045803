@testable import AnnalsCore
@testable import AnnalsWire

/// Footprints of transactions, as relays read them.
enum FootprintFuzzing {
    static let target = FuzzTarget("footprint", seeds: { try $0.files("footprint") }) { bytes in
        let footprint = try Footprint.decode(bytes)
        expect(footprint.encode() == bytes, "a footprint has one encoding")
        expect(footprint.isNormal && footprint.normalized() == footprint, "what is read is in order")
        expect(footprint.isWithin(footprint), "a footprint is within itself")
        let half = Footprint(rules: footprint.rules, keyID: footprint.keyID, groups: Array(footprint.groups.prefix(1)))
        expect(Footprint.conflict(footprint, half) == Footprint.conflict(half, footprint), "a conflict is symmetric")
        certify(footprint, half)
    }

    private static func certify(_ footprint: Footprint, _ half: Footprint) {
        let (one, other) = (ReplicaID(high: 1, low: 1), ReplicaID(high: 2, low: 2))
        for room in [2, 8, 1024] {
            var index = CertificationIndex(maximumHashes: room)
            index.record(footprint, replica: one, position: Position(1))
            index.record(half, replica: other, position: Position(2))
            expect(index.conflict(of: footprint, base: Position(2), replica: one) == nil, "nothing comes after the last")
            let isConflicting = Footprint.conflict(footprint, half)
            let conflict = index.conflict(of: footprint, base: Position(1), replica: one)
            // An index with little room reports more conflicts, never fewer.
            expect(conflict != nil || !isConflicting, "a conflict is found")
        }
    }
}
