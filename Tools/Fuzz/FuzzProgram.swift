import Foundation

/// Runs one target with inputs from libFuzzer, which looks for inputs that reach new code. Scripts/fuzz builds and runs it.
///
///     Fuzz --target=batch CORPUS -runs=100000        runs libFuzzer, to which all other arguments go
///     Fuzz --write-seeds=FOLDER --fixtures=FOLDER    writes the targets' first inputs, a folder each
///     Fuzz --list                                    names the targets
///
/// libFuzzer ignores arguments with two hyphens.
@main
struct FuzzProgram {
    private typealias Callback = @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
    private typealias Arguments = UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>

    @_silgen_name("LLVMFuzzerRunDriver")
    private static func runDriver(_ count: UnsafeMutablePointer<Int32>, _ arguments: Arguments, _ callback: Callback) -> Int32

    /// libFuzzer's callback cannot capture values, so the target is static.
    private static let chosen = option("target").flatMap { name in FuzzTarget.all.first { $0.name == name } }

    static func main() throws {
        if CommandLine.arguments.contains("--list") {
            return print(FuzzTarget.all.map { $0.name }.joined(separator: "\n"))
        }
        if let folder = option("write-seeds"), let fixtures = option("fixtures") {
            return try writeSeeds(URL(fileURLWithPath: folder), Fixtures(folder: URL(fileURLWithPath: fixtures)))
        }
        guard chosen != nil else { throw Usage() }
        var count = CommandLine.argc
        var arguments = CommandLine.unsafeArgv
        let status = runDriver(&count, &arguments) { bytes, count in
            FuzzProgram.chosen?.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
            return 0
        }
        exit(status)
    }

    private struct Usage: Error, CustomStringConvertible {
        var description: String { "give --target=NAME, one of \(FuzzTarget.all.map { $0.name }.joined(separator: ", "))" }
    }

    private static func option(_ name: String) -> String? {
        CommandLine.arguments.first { $0.hasPrefix("--\(name)=") }.map { String($0.dropFirst(name.count + 3)) }
    }

    private static func writeSeeds(_ folder: URL, _ fixtures: Fixtures) throws {
        for target in FuzzTarget.all {
            let place = folder.appendingPathComponent(target.name)
            try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
            for (number, seed) in try target.seeds(fixtures).enumerated() {
                try Data(seed).write(to: place.appendingPathComponent("seed-\(number)"))
            }
        }
    }
}
