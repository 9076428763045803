import AnnalsCore
import AnnalsHTTP
import AnnalsSync
import Testing

/// The error of a transport has one hint. The command line needs its own, which names options.
@Suite struct CertificateHintTests {
    @Test(arguments: CertificateProblem.allCases)
    func `a certificate that is not trusted is explained to an app and to the command line`(problem: CertificateProblem) {
        let error = TransportError.untrusted("the certificate is not trusted", hint: problem.hint).annalsError
        #expect(error.hint == problem.hint && error.hint?.contains("--") == false)
        #expect(error.commandHint == problem.commandHint)
    }

    @Test func `an own transport's hint is for both`() {
        let error = TransportError.untrusted("the certificate is not trusted", hint: "Renew it").annalsError
        #expect(error.hint == "Renew it" && error.commandHint == nil)
    }
}
