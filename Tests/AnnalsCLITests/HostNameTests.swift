import Testing

@testable import AnnalsCLI

@Suite("The name of a replica that was given none")
struct HostNameTests {
    @Test("is the machine and the file without its folder, within what the relay keeps")
    func replica() {
        #expect(HostName.replica(at: "data/shop.db", on: "laptop") == "laptop/shop.db")
        #expect(HostName.replica(at: "shop.db", on: "laptop.example.org") == "laptop.example.org/shop.db")
        #expect(HostName.replica(at: "a\nb\u{7}.db", on: "laptop") == "laptop/ab.db")
        let long = HostName.replica(at: String(repeating: "f", count: 200), on: String(repeating: "h", count: 200))
        #expect(long.count == 127 && long.contains("h/f"))
        #expect(HostName.replica(at: "shop.db") == "\(HostName.current)/shop.db")
    }
}
