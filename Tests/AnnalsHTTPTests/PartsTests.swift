import Testing

@testable import AnnalsHTTP

@Suite struct HeadParserTests {
    private func parse(_ lines: [String], limit: Int = HTTPLimits.headBytes) throws(HTTPError) -> ResponseHead? {
        var parser = HeadParser(limit: limit)
        var head: ResponseHead?
        for line in lines {
            let bytes = Array(line.utf8)
            let result = bytes.withUnsafeBytes { bytes in
                Result { () throws(HTTPError) in try parser.accept(bytes) }
            }
            head = try result.get() ?? head
        }
        return head
    }

    @Test func `a head ends with an empty line`() throws {
        #expect(try parse(["HTTP/1.1 200 OK\r\n", "A: b\r\n"]) == nil)
        let head = try #require(try parse(["HTTP/1.1 200 OK\r\n", "A:b \r\n", "C: d: e\r\n", "F:\r\n", "\r\n"]))
        #expect(head.status == 200)
        #expect(head.headers.fields.map(\.name) == ["A", "C", "F"])
        #expect(head.headers.fields.map(\.value) == ["b", "d: e", ""])
    }

    @Test func `an interim head is forgotten, and a trailer changes nothing`() throws {
        let lines = ["HTTP/1.1 100 Continue\r\n", "A: b\r\n", "\r\n", "HTTP/1.1 404\r\n", "\r\n", "Status: 200\r\n", "\r\n"]
        #expect(try parse(lines) == ResponseHead(status: 404, headers: HTTPHeaders()))
    }

    @Test func `a folded field belongs to the one before`() throws {
        let head = try #require(try parse(["HTTP/1.1 200 OK\r\n", "A: b\r\n", "  c\r\n", "\r\n"]))
        #expect(head.headers["a"] == "b c")
    }

    @Test(
        arguments: [
            "HTTP/1.1\r\n", "HTTP/1.1 20 OK\r\n", "HTTP/1.1 abc\r\n", "FTP 200 OK\r\n", "HTTP/1.1 099 OK\r\n", "HTTP/1.1 -20\r\n",
        ])
    func `a first line without a status is a protocol error`(_ line: String) {
        #expect { try parse([line]) } throws: { ($0 as? HTTPError)?.kind == .protocolError }
    }

    @Test func `all lines together have a limit`() throws {
        let lines = ["HTTP/1.1 200 OK\r\n", "A: b\r\n", "\r\n"]
        #expect(try parse(lines, limit: 25) != nil)
        #expect { try parse(lines, limit: 24) } throws: { ($0 as? HTTPError)?.kind == .tooLarge }
    }
}

@Suite struct TransferClockTests {
    private let start = ContinuousClock.now

    @Test func `a timeout counts from the start, whatever moves`() {
        var clock = TransferClock(start: start, timeout: .seconds(10), stallTimeout: nil)
        clock.run(start + .seconds(1))
        clock.move(start + .seconds(9), bytes: 1)
        #expect(clock.verdict(start + .seconds(9)) == nil)
        #expect(clock.verdict(start + .seconds(10)) == .timeout)
        #expect(clock.deadline == start + .seconds(10))
    }

    @Test func `a stall counts from the last byte, once the connection stands`() {
        var clock = TransferClock(start: start, timeout: nil, stallTimeout: .seconds(5))
        #expect(clock.deadline == nil)
        #expect(clock.verdict(start + .seconds(100)) == nil)
        clock.run(start + .seconds(100))
        clock.move(start + .seconds(103), bytes: 1)
        #expect(clock.deadline == start + .seconds(108))
        #expect(clock.verdict(start + .seconds(107)) == nil)
        #expect(clock.verdict(start + .seconds(108)) == .stalled)
    }

    @Test func `a wait for a new connection is no stall`() {
        var clock = TransferClock(start: start, timeout: nil, stallTimeout: .seconds(5))
        clock.run(start)
        clock.disconnect()
        clock.move(start + .seconds(1), bytes: 1)
        #expect(clock.verdict(start + .seconds(100)) == nil)
        clock.run(start + .seconds(100))
        #expect(clock.verdict(start + .seconds(105)) == .stalled)
    }

    /// At least 100 bytes in 10 seconds.
    private func ratedClock() -> TransferClock {
        var clock = TransferClock(
            start: start, timeout: nil, stallTimeout: .seconds(5), slowest: TransferRate(bytes: 100, in: .seconds(10)))
        clock.run(start)
        return clock
    }

    @Test func `a drip ends, though it never stalls`() {
        var clock = ratedClock()
        for second in 1..<11 {
            clock.move(start + .seconds(second), bytes: 9)
            #expect(clock.verdict(start + .seconds(second)) == nil)
        }
        #expect(clock.deadline == start + .seconds(11))
        #expect(clock.verdict(start + .seconds(11)) == .tooSlow)
    }

    @Test func `a slow line may take as long as it needs`() {
        var clock = ratedClock()
        for second in 1..<100_000 {
            clock.move(start + .seconds(second), bytes: 11)
            if clock.verdict(start + .seconds(second)) != nil { Issue.record("second \(second)") }
        }
    }

    @Test func `neither a wait for a new connection nor a server that has the whole request makes a transfer slow`() {
        var clock = ratedClock()
        clock.move(start, bytes: 1)
        clock.disconnect()
        #expect(clock.verdict(start + .seconds(100)) == nil)
        clock.run(start + .seconds(100))
        clock.move(start + .seconds(100), bytes: 1)
        clock.move(start + .seconds(109), bytes: 1)
        clock.waitForAnswer()
        #expect(clock.verdict(start + .seconds(113)) == nil)
        #expect(clock.deadline == start + .seconds(114))
    }

    @Test func `waiting is rounded up to milliseconds, and never negative`() {
        #expect(Duration.microseconds(1).wholeMilliseconds == 1)
        #expect(Duration.milliseconds(1500).wholeMilliseconds == 1500)
        #expect(Duration.microseconds(1_000_001).wholeMilliseconds == 1001)
        #expect(Duration.milliseconds(-5).wholeMilliseconds == 0)
        #expect(Duration.seconds(1 << 50).wholeMilliseconds == Int(Int32.max))
    }
}

@Suite struct TransferTests {
    @Test func `a transfer can stall only while its connection stands`() throws {
        let transfer = try Transfer(
            HTTPRequest(url: "http://127.0.0.1/", stallTimeout: .seconds(5)), sink: BufferSink(limit: 1, ResponsePromise()))
        let schedule = Schedule()
        let (configuration, security) = (HTTPClient.Configuration(), Security(HTTPClient.Configuration()))
        try transfer.start(on: EasyHandle(), schedule, configuration, security)
        #expect(transfer.clock.deadline == nil)
        transfer.willSend()
        #expect(transfer.clock.deadline == schedule.now + .seconds(5))
        #expect(schedule.earliest == schedule.now + .seconds(5))
        let handle = try #require(transfer.tryAgain())
        #expect(transfer.clock.deadline == nil)
        handle.reset()
        try transfer.start(on: handle, schedule, configuration, security)
        #expect(transfer.clock.deadline == nil)
        transfer.willSend()
        #expect(transfer.clock.deadline == schedule.now + .seconds(5))
        _ = transfer.fail(HTTPError(.cancelled, ""))
    }
}

@Suite struct RequestTargetTests {
    @Test(
        arguments: [
            ("http://127.0.0.1:8640/v1", "127.0.0.1:8640"), ("https://relay.example/", "relay.example:443"), ("HTTP://h", "h:80"),
            ("http://[::1]:1/", "[::1]:1"),
        ])
    func `an address names its server with the port`(_ url: String, _ name: String) throws {
        #expect(try RequestTarget(url: url).name == name)
    }

    @Test(arguments: ["localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "127.1", "[::1]", "shop.localhost"])
    func `this machine is known by its names`(_ host: String) throws {
        #expect(try RequestTarget(url: "http://\(host)/").isLoopback)
    }

    @Test(arguments: ["relay.example", "128.0.0.1", "127.example", "[::2]", "127.0.0.1.example", "localhost.example", "10.127.0.1"])
    func `other machines are not taken for this one`(_ host: String) throws {
        #expect(try !RequestTarget(url: "http://\(host)/").isLoopback)
    }
}
