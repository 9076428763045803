internal import Foundation

/// The network that an address stands for where senders are told apart by address.
///
/// Of IPv4 that is the address. Of IPv6 it is its first 64 bits, since one host has all addresses of such a network. This machine's own
/// address is none: who comes from it is a proxy in front, or somebody who has the machine.
enum PeerNetwork {
    /// nil for this machine's own address, and where none is known.
    static func name(of address: String) -> String? {
        var four = in_addr()
        if inet_pton(AF_INET, address, &four) == 1 { return isLocal(four) ? nil : address }
        // A zone names an interface of this machine.
        guard let text = address.split(separator: "%").first.map(String.init) else { return nil }
        var six = in6_addr()
        guard inet_pton(AF_INET6, text, &six) == 1 else { return nil }
        let bytes = withUnsafeBytes(of: six) { [UInt8]($0) }
        let isMapped = bytes.prefix(10).allSatisfy { $0 == 0 } && bytes[10] == 0xff && bytes[11] == 0xff
        if isMapped { return bytes[12] == 127 ? nil : bytes.suffix(4).map(String.init).joined(separator: ".") }
        guard bytes != [UInt8](repeating: 0, count: 15) + [1] else { return nil }
        return bytes.prefix(8).map { String($0, radix: 16) }.joined(separator: ":") + "/64"
    }

    private static func isLocal(_ address: in_addr) -> Bool {
        withUnsafeBytes(of: address) { $0.first == 127 }
    }
}
