/// The events of a run, as one number that is equal for equal runs, and as lines if requested.
struct Trace {
    private(set) var lines: [String] = []
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    private let keepsLines: Bool

    init(keepsLines: Bool) {
        self.keepsLines = keepsLines
    }

    mutating func note(_ line: String) {
        for byte in line.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        if keepsLines { lines.append(line) }
    }
}
