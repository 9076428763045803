import Foundation

/// Another user, for tests of permissions that also run as root.
enum OtherUser {
    private static let nobody = "65534"
    private static var isRoot: Bool { geteuid() == 0 }

    /// False if the tests run as root and cannot switch to another user.
    static let isThere: Bool = {
        guard isRoot else { return true }
        return Command.works("setpriv", ["--reuid=\(nobody)", "--clear-groups", Workshop.annals, "--version"])
    }()

    /// Runs `annals` with a folder that it cannot write to.
    static func run(_ arguments: [String], in shop: Workshop) async throws -> Outcome {
        let manager = FileManager.default
        for name in try shop.names() { try manager.setAttributes([.posixPermissions: 0o444], ofItemAtPath: shop.file(name)) }
        try manager.setAttributes([.posixPermissions: 0o555], ofItemAtPath: shop.path)
        defer { try? manager.setAttributes([.posixPermissions: 0o755], ofItemAtPath: shop.path) }
        let user = isRoot ? ["setpriv", "--reuid=\(nobody)", "--clear-groups"] : ["env"]
        return try await Program.run(user[0], user.dropFirst() + [Workshop.annals] + arguments, in: shop.path)
    }
}

/// A file system of a few hundred kilobytes, in a namespace that ends with the program.
enum SmallDisk {
    static let isThere = Command.works("unshare", ["--mount", "--map-root-user", "sh", "-c", "mount -t tmpfs tmpfs /mnt"])

    /// Runs `annals` in it, and then a command. The command's output replaces that of `annals`.
    static func run(
        _ arguments: [String], kibibytes: Int, in shop: Workshop, copying file: String? = nil, then look: String
    ) async throws -> Outcome {
        let words = arguments.map { "'\($0)'" }.joined(separator: " ")
        let copy = file.map { "cp ../\($0) . || exit 99" } ?? ":"
        let script = """
            mkdir -p small && mount -t tmpfs -o size=\(kibibytes)k tmpfs small && cd small || exit 99
            \(copy)
            '\(Workshop.annals)' \(words) > ../annals-output
            status=$?
            \(look)
            exit $status
            """
        return try await Program.run("unshare", ["--mount", "--map-root-user", "sh", "-c", script], in: shop.path)
    }
}

enum Command {
    static func works(_ executable: String, _ arguments: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [executable] + arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}
