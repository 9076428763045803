import AnnalsCore
import Testing

/// An error has a hint for an app. If the command line needs other words, it has a second one.
@Suite struct AnnalsErrorTests {
    @Test func `an error describes itself with the hint for an app`() {
        let error = AnnalsError(.notJoined, "the store has not joined", hint: "Call join()", commandHint: "Run join")
        #expect("\(error)" == "the store has not joined. Call join()")
    }

    @Test func `a sentence is added to both hints`() {
        var error = AnnalsError(.busy, "it is locked", hint: "Call wait()", commandHint: "Run wait")
        error.add(hint: "Then call go()", commandHint: "Then run go")
        #expect(error.hint == "Call wait(). Then call go()")
        #expect(error.commandHint == "Run wait. Then run go")
    }

    @Test func `a sentence is added to one hint for both, and to none`() {
        var error = AnnalsError(.busy, "it is locked", hint: "Wait")
        error.add(hint: "Then call go()", commandHint: "Then run go")
        #expect(error.hint == "Wait. Then call go()")
        #expect(error.commandHint == "Wait. Then run go")
        var bare = AnnalsError(.busy, "it is locked")
        bare.add(hint: "Call go()", commandHint: "Run go")
        #expect(bare.hint == "Call go()" && bare.commandHint == "Run go")
    }
}
