import Testing

@testable import AnnalsCLI

@Suite("The system's user in the audit log")
struct SystemUserTests {
    @Test("is the user that runs the command, and with sudo also the one that called it")
    func name() {
        #expect(SystemUser.name(uid: 1000, own: "ann", environment: [:]) == "ann")
        #expect(SystemUser.name(uid: 1000, own: nil, environment: ["SUDO_USER": "eve"]) == "uid 1000")
        #expect(SystemUser.name(uid: 0, own: "root", environment: ["SUDO_USER": "ann"]) == "ann as root")
        #expect(SystemUser.name(uid: 0, own: "root", environment: ["SUDO_USER": ""]) == "root")
        #expect(SystemUser.name(uid: 0, own: "root", environment: ["SUDO_USER": "root"]) == "root")
        #expect(!SystemUser.name.isEmpty)
    }
}
