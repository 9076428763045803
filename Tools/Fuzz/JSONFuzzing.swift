import Foundation
import RelayLog

@testable import AnnalsCore
@testable import AnnalsReplica
@testable import AnnalsStore
@testable import AnnalsSync
@testable import AnnalsWire
@testable import Relay

/// JSON that relays, clients, operators and identity providers send.
enum JSONFuzzing {
    static let target = FuzzTarget("json", seeds: { _ in seeds.map { Array($0.utf8) } }) { bytes in
        let data = Data(bytes)
        let decoder = JSONDecoder()
        if let description = try? decoder.decode(SpaceDescription.self, from: data) { read(description) }
        if let event = try? decoder.decode(HeadEvent.self, from: data) { _ = event.head.next }
        if let problem = try? decoder.decode(Problem.self, from: data) {
            let error = TransportError.problem(problem, retryAfter: nil)
            _ = (error.annalsError, error.isWorthRetrying, error.isDefiniteRefusal)
        }
        _ = try? decoder.decode(TokenRequest.self, from: data).checked()
        _ = try? decoder.decode(PurgeRequest.self, from: data).checked()
        if let report = try? decoder.decode(EntryReportRequest.self, from: data).checked() { _ = report.position.next }
        if let check = (try? decoder.decode(SnapshotCheckRequest.self, from: data))?.check {
            expect(check.position >= .zero, "a position is none below 0")
        }
        if let evidence = try? decoder.decode(LogEvidence.self, from: data) {
            _ = (evidence.author.isSigned, evidence.here.isSigned, evidence.message)
        }
        if let key = WebTokenClaims.claimName { decoder.userInfo[key] = "annals" }
        _ = try? decoder.decode(WebTokenClaims.self, from: data)
    }

    private static func read(_ description: SpaceDescription) {
        for position in [description.head, description.horizon] + (description.snapshot.map { [$0.position] } ?? []) {
            var writer = ByteWriter()
            writer.position(position)
            expect(position.next > position && position.advanced(by: -1) < position, "a position has neighbours")
        }
        _ = HybridTime.zero.clamped(toReceipt: description.time ?? 0)
        guard let data = try? JSONEncoder().encode(description) else { return expect(false, "a description can be written") }
        let again = try? JSONDecoder().decode(SpaceDescription.self, from: data)
        expect(again == description, "a description reads as it is written")
    }

    private static let lineage = Lineage(high: 0x0102_0304_0506_4708, low: 0x8000_0000_0000_0009)

    private static let seeds = [
        """
        {"space":"shop","lineage":"\(lineage)","head":7,"horizon":0,"time":1760000000000,
        "snapshot":{"position":5,"bytes":100,"digest":"\(Digest.zero)","logDigest":"\(Digest.zero)"}}
        """,
        #"{"type":"urn:annals:problem:expired","title":"t","status":410,"code":"expired","detail":"D","hint":"h"}"#,
        #"{"label":"a","space":"shop","scope":"write","lifetimeSeconds":60}"#, #"{"dryRun":true,"keepSeconds":5,"force":false}"#,
        #"{"position":4,"digest":"\#(Digest.zero)","rule":"constraint","table":"seats"}"#,
        #"{"position":4,"digest":"\#(Digest.zero)","good":true}"#,
        #"{"iss":"a","sub":"b","aud":["c"],"exp":1760000000,"nbf":1,"annals":{"shop":"write","*":"read"}}"#,
        #"{"aud":"c","exp":1e300,"annals":["shop:admin"]}"#,
        """
        {"kind":"other-log","space":"shop","lineage":"x","position":1,"clearPart":"AAAA",
        "author":{"replica":"r","publicKey":"AAAA","message":"AAAA","signature":"AAAA","position":1,"digest":"d"},
        "here":{"replica":"r","publicKey":"AAAA","message":"AAAA","signature":"AAAA","position":1,"digest":"d"}}
        """,
    ]
}
