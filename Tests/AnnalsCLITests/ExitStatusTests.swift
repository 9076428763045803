import AnnalsCore
import AnnalsSync
import ArgumentParser
import RelayLog
import Testing

@testable import AnnalsCLI

@Suite("Exit status")
struct ExitStatusTests {
    @Test(
        "follows from the kind of error, one table for all",
        arguments: [
            (.usage, 64), (.notADatabase, 65), (.newerFormat, 65), (.notTracked, 65), (.schemaRefused, 65), (.constraint, 65),
            (.conflict, 65), (.validation, 65),
            (.tokenExpired, 65), (.tokenUnknown, 65), (.corruptBatch, 65), (.tooLarge, 65), (.diverged, 65), (.badFootprint, 65),
            (.notJoined, 65), (.alreadyJoined, 65), (.rowsDiffer, 65), (.relayRolledBack, 65), (.expired, 65), (.waitingForMigration, 65),
            (.rowNotFound, 65),
            (.fileNotFound, 66), (.spaceNotFound, 66), (.consumerUnknown, 66), (.relayUnreachable, 69), (.notARelay, 69), (.defect, 70),
            (.cannotCreate, 73),
            (.diskFull, 73),
            (.spaceExists, 73), (.spaceUnfinished, 75), (.busy, 75), (.relayOverloaded, 75), (.readOnly, 77), (.notPermitted, 77),
            (.quarantined, 77),
            (.configuration, 78), (.missingKey, 78),
            (.cancelled, 130),
        ] as [(AnnalsError.Code, Int32)])
    func table(_ code: AnnalsError.Code, _ status: Int32) {
        #expect(ExitStatus(code).rawValue == status)
    }

    @Test("the table has every kind of error")
    func complete() {
        #expect(AnnalsError.Code.allCases.count == 40)
    }

    @Test("an error is one line: what, and what to do")
    func oneLine() {
        let error = AnnalsError(.busy, "shop.db is\nlocked.", hint: "Try again.")
        let report = ErrorReport(error, root: RootCommand.self)
        #expect(report.status == .tryAgain && report.line == "annals: error: shop.db is locked. Try again")
    }

    @Test("an error of the library is explained with commands, not with the library's names")
    func commandHint() {
        let error = AnnalsError(.notJoined, "the store has not joined a space", hint: "Call join()", commandHint: "Run annals join first")
        let report = ErrorReport(error, root: RootCommand.self)
        #expect(report.line == "annals: error: the store has not joined a space. Run annals join first")
        #expect("\(error)" == "the store has not joined a space. Call join()")
    }

    @Test("a refusal of a relay names its request, also as JSON")
    func requestID() {
        var error = AnnalsError(.relayOverloaded, "the space is full", hint: "Try again")
        #expect(JSON.refusal(error) == nil)
        error.requestID = "6d0f"
        #expect(
            ErrorReport(error, root: RootCommand.self).line
                == "annals: error: the space is full. Try again. At the level info, the relay's log has it as request 6d0f")
        #expect(
            JSON.refusal(error)?.description
                == #"{"code":"relayOverloaded","message":"the space is full","hint":"Try again","request":"6d0f"}"#)
        #expect("\(error)" == "the space is full. Try again. At the level info, the relay's log has it as request 6d0f")
    }

    @Test("the argument parser's errors have the same form and status 64")
    func parserErrors() {
        for arguments in [
            ["frobnicate"], ["track"], ["sync"], ["history", "a.db", "--limit", "x"], ["join", "a.db", "--relay", "u", "--space", "/"],
        ] {
            #expect {
                _ = try RootCommand.parseAsRoot(arguments)
            } throws: { error in
                let report = ErrorReport(error, root: RootCommand.self)
                return report.status == .usage && report.line?.hasPrefix("annals: error: ") == true
                    && report.line?.contains("See annals ") == true
                    && report.line?.contains("\n") == false
            }
        }
    }

    @Test("a finished check and an interruption say nothing more")
    func silent() {
        #expect(ErrorReport(CheckFailed(), root: RootCommand.self).line == nil)
        #expect(ErrorReport(CheckFailed(), root: RootCommand.self).status == .checkFailed)
        #expect(ErrorReport(CancellationError(), root: RootCommand.self).line == nil)
        #expect(ErrorReport(TransportError.cancelled, root: RootCommand.self).status == .interrupted)
    }

    @Test("every command has help with an example")
    func examples() {
        func check(_ command: any ParsableCommand.Type) {
            let subcommands = command.configuration.subcommands
            for subcommand in subcommands { check(subcommand) }
            if subcommands.isEmpty {
                #expect(command.configuration.discussion.contains("Example"), "\(command)")
                #expect(!command.configuration.abstract.isEmpty, "\(command)")
            }
        }
        check(RootCommand.self)
    }

    @Test("a relay's storage that cannot be used is told as such, whichever command looks at it")
    func storage() {
        func report(_ error: RelayLogError) -> ErrorReport { ErrorReport(error, root: RootCommand.self) }
        #expect(report(.storage("no such table")).status == .cannotCreate)
        #expect(report(.storage("no such table")).line == "annals: error: the relay's storage cannot be used: no such table")
        #expect(report(.overloaded(retryAfterSeconds: 1)).status == .tryAgain)
        #expect(report(.databaseAway("Connection refused")).status == .tryAgain)
    }

    @Test(
        "lengths of time",
        arguments: [("45s", 45_000), ("90m", 5_400_000), ("12h", 43_200_000), ("30d", 2_592_000_000)] as [(String, Int64)])
    func lifetimes(_ text: String, _ milliseconds: Int64) {
        #expect(Lifetime(argument: text)?.milliseconds == milliseconds)
    }

    @Test("what is no length of time", arguments: ["", "5", "h", "0h", "-1h", "1y", "9223372036854775807w"])
    func badLifetimes(_ text: String) {
        #expect(Lifetime(argument: text) == nil)
    }
}
