internal import Foundation

/// The proxies that may say for whom they send a request.
///
/// Every client can send `X-Forwarded-For`. So the relay reads the header only if the connection comes from one of these
/// addresses, from its end, and up to the first address that is not one of them.
package struct TrustedProxies: Sendable, Hashable {
    /// 16 bytes, and how many bits of them count. IPv4 addresses are mapped into IPv6.
    private struct Network: Sendable, Hashable {
        var bytes: [UInt8]
        var bits: Int
    }

    private var networks: [Network] = []
    /// The setting as it was written.
    let text: String

    /// No proxy.
    package init() { text = "" }

    /// Reads addresses and networks, separated by commas: `127.0.0.1, 10.0.0.0/8, fd00::/8`. nil if it is no such list.
    package init?(_ text: String) {
        self.text = text
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let network = Self.network(part.trimmingCharacters(in: .whitespaces)) else { return nil }
            networks.append(network)
        }
    }

    private static func network(_ text: String) -> Network? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard let address = parts.first, let bytes = Self.bytes(of: address), parts.count <= 2 else { return nil }
        guard parts.count == 2 else { return Network(bytes: bytes, bits: 128) }
        let most = address.contains(":") ? 128 : 32
        guard let bits = Int(parts[1]), (0...most).contains(bits), parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Network(bytes: bytes, bits: 128 - most + bits)
    }

    /// The address of the client.
    ///
    /// - Parameters:
    ///   - peer: the address at the other end of the connection.
    ///   - forwarded: the values of `X-Forwarded-For`, in their order.
    func client(of peer: String, forwarded: [String]) -> String {
        guard !networks.isEmpty, trusts(peer) else { return peer }
        var client = peer
        for hop in forwarded.joined(separator: ",").split(separator: ",", omittingEmptySubsequences: false).reversed() {
            guard let address = Self.address(in: hop.trimmingCharacters(in: .whitespaces)) else { return client }
            client = address
            guard trusts(address) else { return client }
        }
        return client
    }

    private func trusts(_ address: String) -> Bool {
        guard let bytes = Self.bytes(of: address) else { return false }
        return networks.contains { network in
            (0..<network.bits).allSatisfy { bit in (bytes[bit / 8] ^ network.bytes[bit / 8]) & (0x80 >> UInt8(bit % 8)) == 0 }
        }
    }

    /// The address of an item, which may have a port and brackets. nil if it is none.
    private static func address(in item: String) -> String? {
        var address = item[...]
        if item.hasPrefix("["), let end = item.firstIndex(of: "]") {
            address = item[item.index(after: item.startIndex)..<end]
        } else if item.contains("."), let colon = item.firstIndex(of: ":"), colon == item.lastIndex(of: ":") {
            address = item[..<colon]
        }
        return bytes(of: String(address)) == nil ? nil : String(address)
    }

    /// Without the zone of an IPv6 address, which is an interface of this machine.
    private static func bytes(of address: String) -> [UInt8]? {
        var four = in_addr()
        if inet_pton(AF_INET, address, &four) == 1 {
            return [UInt8](repeating: 0, count: 10) + [0xff, 0xff] + withUnsafeBytes(of: four) { [UInt8]($0) }
        }
        var six = in6_addr()
        guard inet_pton(AF_INET6, String(address.prefix { $0 != "%" }), &six) == 1 else { return nil }
        return withUnsafeBytes(of: six) { [UInt8]($0) }
    }
}
