import AnnalsCore
import AnnalsHTTP
import AnnalsSync
import Testing

/// A problem with a certificate has a hint for an app, and another for the command line, which names options.
@Suite struct CertificateHintTests {
    @Test(arguments: CertificateProblem.allCases)
    func `a certificate that is not trusted is explained to an app and to the command line`(problem: CertificateProblem) {
        let error = TransportError.untrusted("the certificate is not trusted", problem).annalsError
        #expect(error.hint == problem.hint && error.hint?.contains("--") == false)
        #expect(error.commandHint == problem.commandHint)
    }
}
