import AnnalsCore
import AnnalsReplica
import AnnalsStore
import ArgumentParser
import Foundation

struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Manage the keys of encrypted spaces.",
        subcommands: [KeyNewCommand.self])
}

struct KeyNewCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new",
        abstract: "Create a key for end-to-end encryption of a space.",
        discussion: """
            Every replica of the space needs the same key file (--space-key-file of join, clone and replay). The relay must never \
            have it. Without the file nobody can decrypt the space's data at the relay: keep a copy that the relay's operator cannot \
            access.

            With --add the new key is appended to a key file. It encrypts all later data; the older keys still decrypt what they \
            encrypted. Give the longer file to every other replica first, and sync this one last.

            Examples:
              annals key new --output shop.key
              annals join shop.db --relay https://relay.example.org --space shop --space-key-file shop.key
              annals key new --add shop.key
            """)

    @Option(
        help: ArgumentHelp("The file to create, readable by its owner only; it must not exist.", valueName: "file"), completion: .file())
    var output: String?
    @Option(help: ArgumentHelp("A key file to which the new key is added.", valueName: "file"), completion: .file())
    var add: String?
    @OptionGroup var options: OutputOptions

    func validate() throws {
        if output != nil, add != nil { throw ValidationError("--output and --add cannot be combined.") }
    }

    func run() throws {
        let key = SpaceKey.random()
        let text =
            "# annals space key \(SpaceKey.name(of: key.id)), made \(Timestamp.text(Int64(Date().timeIntervalSince1970) * 1_000))\n\(key.line)\n"
        if let output {
            try KeyFile.make(text, at: output)
        } else if let add {
            _ = try SpaceKeyFile.read(add)
            try KeyFile.append(text, to: add)
        }
        let console = options.console
        if options.json {
            let facts: JSON = .object(["id": .text(SpaceKey.name(of: key.id))])
            console.print(facts.adding([output ?? add == nil ? "text" : "file": .text(output ?? add ?? text)]))
        } else if let output {
            console.print("\(output) contains the new space key \(SpaceKey.name(of: key.id)). Keep a copy: a lost key cannot be restored")
        } else if let add {
            console.print("\(add) encrypts with the new space key \(SpaceKey.name(of: key.id)) from now on. Give it to every replica")
        } else {
            console.print(text.trimmingCharacters(in: .newlines))
        }
    }
}

/// Key files. Only the owner can read them, and an existing key is never lost.
private enum KeyFile {
    static func make(_ text: String, at path: String) throws {
        try SecretFile(path, replaces: false, ifTaken: "A key file is never overwritten; --add appends a key to it").finish(text)
    }

    /// The file always has either its old content, or its old content and the new key.
    static func append(_ text: String, to path: String) throws {
        // A symbolic link is kept; the file that it refers to is replaced.
        let path = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
        guard let old = FileManager.default.contents(atPath: path) else { throw SecretFile.failure(path) }
        let beside = "\(path).new-\(ReplicaID.random().description.prefix(8))"
        let separator = old.last == UInt8(ascii: "\n") ? "" : "\n"
        guard old.count + separator.utf8.count + text.utf8.count <= SpaceKeyRing.maximumBytes else {
            throw AnnalsError(
                .cannotCreate, "\(path) would be larger than \(SpaceKeyRing.maximumBytes >> 10) KiB",
                hint: "Remove old keys that no data is encrypted with any more")
        }
        try make(String(decoding: old, as: UTF8.self) + separator + text, at: beside)
        if let mode = try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] {
            try? FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: beside)
        }
        guard rename(beside, path) == 0 else {
            let error = SecretFile.failure(path)
            unlink(beside)
            throw error
        }
    }
}
