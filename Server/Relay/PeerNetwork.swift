internal import Foundation

/// The network of an address, where the relay distinguishes clients by address.
///
/// For IPv4 it is the address. For IPv6 it is the first 64 bits, because one host can use all addresses of such a
/// network. Addresses of this machine have none: their clients are a local proxy or local users.
enum PeerNetwork {
    /// nil for an address of this machine, and for an unknown one.
    static func name(of address: String) -> String? {
        var four = in_addr()
        if inet_pton(AF_INET, address, &four) == 1 { return isLocal(four) ? nil : address }
        // The zone in an IPv6 address is an interface of this machine and no part of the network.
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
