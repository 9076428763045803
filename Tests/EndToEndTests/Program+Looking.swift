import Foundation

/// The system's data about a running program, for tests that must catch it in the middle of something.
extension Program {
    /// Whether it has a file with this name open.
    func hasOpen(_ name: String) -> Bool {
        let folder = "/proc/\(id)/fd"
        return ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).contains { descriptor in
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\(descriptor)"))?.hasSuffix("/\(name)") == true
        }
    }

    /// Whether it has used a processor for this long.
    func hasComputedForSeconds(_ seconds: Int) -> Bool {
        guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8) else { return false }
        // After the name, which can contain anything: state, ten numbers, then the ticks in the program and in the system.
        let fields = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ")
        guard fields.count > 13, let user = Int(fields[12]), let system = Int(fields[13]) else { return false }
        return user + system >= seconds * Int(sysconf(Int32(_SC_CLK_TCK)))
    }
}
