// swift-tools-version: 6.1
import PackageDescription

// Arrows point towards values: nothing imports upward, and the relay never imports store, merge or sync.

let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let sqlite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let metrics = Target.Dependency.product(name: "Metrics", package: "swift-metrics")
let coreMetrics = Target.Dependency.product(name: "CoreMetrics", package: "swift-metrics")
let lifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let signals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")
let hummingbird = Target.Dependency.product(name: "Hummingbird", package: "hummingbird")
let hummingbirdCore = Target.Dependency.product(name: "HummingbirdCore", package: "hummingbird")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let nio = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")
let nioHTTPTypes = Target.Dependency.product(name: "NIOHTTPTypes", package: "swift-nio-extras")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")
let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")

let configuration = Target.Dependency.product(name: "Configuration", package: "swift-configuration")
let jwt = Target.Dependency.product(name: "JWTKit", package: "jwt-kit")
let yams = Target.Dependency.product(name: "Yams", package: "Yams")

/// A store with all that it is made of, from below to above.
let storeModules: [Target.Dependency] = [
    "AnnalsSQLite", "AnnalsSchema", "AnnalsHistory", "AnnalsRows", "AnnalsReplica", "AnnalsStore",
]

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

// Linux has libcurl and zstd. Of Apple's systems some have one and some neither: there URLSession does the requests, and zstd is
// compiled from its own package. Documentation/dependencies.md has more.
#if canImport(Darwin)
    let systemPackages: [Package.Dependency] = [.package(url: "https://github.com/facebook/zstd", from: "1.5.7")]
    let systemTargets: [Target] = [
        .target(name: "CZstd", dependencies: [.product(name: "libzstd", package: "zstd")], path: "Sources/CZstdApple"),
        .target(name: "AnnalsHTTP", exclude: ["DESIGN.md", "Curl"], swiftSettings: settings),
    ]
#else
    let systemPackages: [Package.Dependency] = []
    let systemTargets: [Target] = [
        .systemLibrary(name: "CZstd", path: "Sources/CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
        .systemLibrary(
            name: "CCurlSystem", path: "Sources/CCurlSystem", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .target(name: "CCurl", dependencies: ["CCurlSystem"], path: "Sources/CCurl"),
        .target(name: "AnnalsHTTP", dependencies: ["CCurl"], exclude: ["DESIGN.md", "URLSession"], swiftSettings: settings),
    ]
#endif

// Only for Scripts/fuzz: without the fuzzer's runtime it cannot be linked.
let fuzzTargets: [Target] =
    Context.environment["ANNALS_FUZZ"] == nil
    ? []
    : [
        .executableTarget(
            name: "Fuzz",
            dependencies: [
                "AnnalsCore", "AnnalsHTTP", "AnnalsStore", "AnnalsSync", "AnnalsWire", "Relay", "RelayLog", httpTypes, hummingbird, nio,
            ],
            path: "Tools/Fuzz", swiftSettings: settings)
    ]

let package = Package(
    name: "annals",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "Annals", targets: ["Annals"]),
        .library(name: "AnnalsTesting", targets: ["AnnalsTesting"]),
        .executable(name: "annals", targets: ["AnnalsCLI"]),
        .executable(name: "annals-simulate", targets: ["SimulateProgram"]),
        .executable(name: "annals-bench", targets: ["AnnalsBench"]),
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        // Without its traits: nothing here needs them, and their order on the compiler's command line changes from run to run,
        // so that Hummingbird would be compiled again every other time.
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        // Its YAML form; no other is read.
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: ["YAML"]),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", "3.12.3"..<"5.0.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.34.1"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
        // Only for `make docs`.
        .package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0"),
    ] + systemPackages,
    targets: [
        // System libraries and the few C calls that Swift cannot make by itself (variadic functions): see `systemTargets`, too.
        .systemLibrary(
            name: "CPostgres", path: "Sources/CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
        .target(name: "CAnnalsSQLite", dependencies: [sqlite], path: "Sources/CAnnalsSQLite"),
        .target(name: "CAnnalsMemory", path: "Sources/CAnnalsMemory"),

        // Values, bytes and rules: no input or output, no clock, no randomness.
        .target(name: "AnnalsCore", dependencies: [crypto], exclude: ["DESIGN.md"], swiftSettings: settings),
        .target(name: "AnnalsWire", dependencies: ["AnnalsCore", "CZstd", crypto], exclude: ["DESIGN.md"], swiftSettings: settings),
        .target(name: "AnnalsMerge", dependencies: ["AnnalsCore", "AnnalsWire"], exclude: ["DESIGN.md"], swiftSettings: settings),

        // SQLite as the store uses it: statements, large values, texts of statements, files.
        .target(
            name: "AnnalsSQLite", dependencies: ["AnnalsCore", "AnnalsWire", "CAnnalsSQLite", grdb, sqlite], exclude: ["DESIGN.md"],
            swiftSettings: settings),

        // What a store's tables are, by the schema and by Annals' own tables.
        .target(
            name: "AnnalsSchema", dependencies: ["AnnalsCore", "AnnalsWire", "AnnalsMerge", "AnnalsSQLite", grdb, sqlite],
            exclude: ["DESIGN.md"], swiftSettings: settings),

        // Capture, and what happened to rows: transactions, their changes, purging, watching.
        .target(
            name: "AnnalsHistory",
            dependencies: ["AnnalsCore", "AnnalsWire", "AnnalsSQLite", "AnnalsSchema", grdb, sqlite],
            exclude: ["DESIGN.md"], swiftSettings: settings),

        // Changes of rows that are checked, made and recorded, and the past by them: replay, difference, blame.
        .target(
            name: "AnnalsRows",
            dependencies: [
                "AnnalsCore", "AnnalsWire", "AnnalsMerge", "AnnalsSQLite", "AnnalsSchema", "AnnalsHistory", "CAnnalsSQLite", grdb, sqlite,
            ],
            exclude: ["DESIGN.md"], swiftSettings: settings),

        // A store that belongs to a space: outbox, apply, rebase, snapshots, the space's schema.
        .target(
            name: "AnnalsReplica",
            dependencies: [
                "AnnalsCore", "AnnalsWire", "AnnalsMerge", "AnnalsSQLite", "AnnalsSchema", "AnnalsHistory", "AnnalsRows", "CAnnalsSQLite",
                grdb, sqlite,
            ],
            exclude: ["DESIGN.md"], swiftSettings: settings),

        // One file, and the library an app imports.
        .target(
            name: "AnnalsStore",
            dependencies: [
                "AnnalsCore", "AnnalsWire", "AnnalsMerge", "AnnalsSQLite", "AnnalsSchema", "AnnalsHistory", "AnnalsRows", "AnnalsReplica",
                grdb, sqlite, logging,
            ],
            exclude: ["DESIGN.md"], swiftSettings: settings),
        .target(
            name: "AnnalsSync",
            dependencies: storeModules + ["AnnalsCore", "AnnalsWire", "AnnalsHTTP", grdb, logging], exclude: ["DESIGN.md"],
            swiftSettings: settings),
        .target(
            name: "Annals",
            dependencies: storeModules + ["AnnalsCore", "AnnalsWire", "AnnalsHTTP", "AnnalsSync", grdb, logging],
            exclude: ["DESIGN.md"], swiftSettings: settings),

        // The relay.
        .target(
            name: "RelayLog", dependencies: ["AnnalsCore", "AnnalsWire", grdb, sqlite, logging], path: "Server/RelayLog",
            exclude: ["DESIGN.md"], swiftSettings: settings),
        .target(
            name: "RelayPostgres", dependencies: ["AnnalsCore", "AnnalsWire", "RelayLog", "CPostgres", logging],
            path: "Server/RelayPostgres",
            exclude: ["DESIGN.md"], swiftSettings: settings),
        .target(
            name: "Relay",
            dependencies: [
                "AnnalsCore", "AnnalsHTTP", "AnnalsWire", "RelayLog", "RelayPostgres", configuration, coreMetrics, httpTypes, hummingbird,
                hummingbirdCore, jwt, lifecycle, logging, metrics, nio, nioHTTPTypes, nioSSL, signals, yams,
            ],
            path: "Server/Relay", exclude: ["DESIGN.md"], resources: [.embedInCode("Admin/Page")], swiftSettings: settings),

        // The command line and the test kit.
        .executableTarget(
            name: "AnnalsCLI",
            dependencies: storeModules + [
                "Annals", "AnnalsCore", "AnnalsWire", "AnnalsHTTP", "AnnalsSync", "CAnnalsMemory", "Relay",
                "RelayLog",
                argumentParser, grdb, lifecycle, logging, yams,
            ],
            exclude: ["DESIGN.md"], swiftSettings: settings),
        .target(
            name: "AnnalsTesting", dependencies: ["AnnalsCore", "AnnalsWire", "AnnalsSync", "Annals", "RelayLog", "SeededRandom", logging],
            exclude: ["DESIGN.md"], swiftSettings: settings),

        // What a person can run, with nothing but the library. Without `packageAccess`, as an app of another package would be: what it
        // uses must be public.
        .executableTarget(
            name: "annals-notes", dependencies: ["Annals", logging], path: "Examples/Notes", exclude: ["README.md"], packageAccess: false,
            swiftSettings: settings),

        // The tests' one source of chance.
        .target(name: "SeededRandom", path: "Tools/SeededRandom", swiftSettings: settings),

        // The simulator: a world from one seed, its oracle, and the program that runs as many seeds as one likes.
        .target(
            name: "Simulation",
            dependencies: storeModules + ["AnnalsCore", "AnnalsWire", "AnnalsSync", "AnnalsTesting", "RelayLog", grdb, sqlite, logging],
            path: "Tools/Simulation", swiftSettings: settings),
        .executableTarget(
            name: "SimulateProgram", dependencies: storeModules + ["Simulation", argumentParser],
            path: "Tools/SimulateProgram",
            swiftSettings: settings),
        .testTarget(name: "SimulationTests", dependencies: ["Simulation"], swiftSettings: settings),
        .target(name: "CInstructionCount", path: "Tools/CInstructionCount"),
        // Not installed with the tool.
        .executableTarget(
            name: "AnnalsBench",
            dependencies: storeModules + [
                "Annals", "AnnalsCore", "AnnalsHTTP", "AnnalsSync", "AnnalsTesting", "AnnalsWire", "CInstructionCount",
                "SeededRandom", argumentParser, sqlite,
            ],
            path: "Tools/Benchmarks", exclude: ["instructions.json"], swiftSettings: settings),

        .testTarget(
            name: "AnnalsCLITests",
            dependencies: storeModules + ["AnnalsCLI", "AnnalsCore", "AnnalsSync", "RelayLog", argumentParser, grdb],
            swiftSettings: settings),
        .testTarget(
            name: "EndToEndTests", dependencies: ["AnnalsCLI", "Annals", "AnnalsTesting", "annals-notes", grdb, lifecycle, logging],
            swiftSettings: settings),
        .testTarget(name: "CrashTests", dependencies: ["AnnalsCLI", "SeededRandom", grdb], swiftSettings: settings),
        .testTarget(
            name: "AnnalsSQLiteTests", dependencies: ["AnnalsCore", "AnnalsSQLite", "SeededRandom", grdb], swiftSettings: settings),
        .testTarget(name: "AnnalsCoreTests", dependencies: ["AnnalsCore"], swiftSettings: settings),
        .testTarget(
            name: "AnnalsWireTests", dependencies: ["AnnalsCore", "AnnalsWire", "SeededRandom"], exclude: ["Fixtures", "decode_batch.py"],
            swiftSettings: settings),
        .testTarget(
            name: "AnnalsMergeTests", dependencies: ["AnnalsMerge", "AnnalsCore", "AnnalsWire", "SeededRandom"], swiftSettings: settings),
        .testTarget(
            name: "AnnalsSyncTests",
            dependencies: storeModules + [
                "AnnalsSync", "AnnalsTesting", "AnnalsCore", "AnnalsWire", "AnnalsMerge", "AnnalsHTTP", "RelayLog",
                "SeededRandom", grdb, logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "AnnalsStoreTests",
            dependencies: storeModules + [
                "AnnalsCore", "AnnalsWire", "AnnalsMerge", "CAnnalsSQLite", "SeededRandom",
                grdb, sqlite,
            ],
            swiftSettings: settings),
        // SQLite's files, seen by a test that then forgets what was not synced.
        .target(name: "CPowerLossDisk", dependencies: [sqlite], path: "Tools/CPowerLossDisk"),
        .testTarget(
            name: "PowerLossTests",
            dependencies: storeModules + [
                "Annals", "AnnalsCore", "AnnalsSync", "AnnalsTesting", "AnnalsWire", "CPowerLossDisk", "RelayLog",
                "RelayTestSupport", "SeededRandom", grdb, logging,
            ],
            swiftSettings: settings),
        .target(
            name: "RelayTestSupport", dependencies: ["AnnalsCore", "AnnalsWire", "RelayLog", "RelayPostgres", logging],
            path: "Tools/RelayTestSupport",
            swiftSettings: settings),
        .testTarget(
            name: "RelayLogTests",
            dependencies: [
                "AnnalsCore", "AnnalsSync", "AnnalsTesting", "AnnalsWire", "RelayLog", "RelayTestSupport", "SeededRandom", grdb, logging,
            ],
            swiftSettings: settings),
        .testTarget(
            name: "RelayPostgresTests",
            dependencies: ["AnnalsCore", "AnnalsWire", "RelayLog", "RelayPostgres", "RelayTestSupport"], swiftSettings: settings),
        .testTarget(
            name: "RelayTests",
            dependencies: [
                "AnnalsCore", "AnnalsWire", "Relay", "RelayLog", "RelayTestSupport", configuration, coreMetrics, crypto, cryptoExtras,
                httpTypes, hummingbird, jwt, lifecycle, logging, nio, nioEmbedded, nioHTTPTypes, yams,
            ],
            swiftSettings: settings),
        // Only for Scripts/measure-memory.
        .executableTarget(name: "memory-probe", dependencies: ["Annals", grdb], path: "Tools/MemoryProbe", swiftSettings: settings),
        // Without `packageAccess`, so that these tests prove of what is public that an app needs no more. A file that tests what is
        // inside says `@testable`.
        .testTarget(
            name: "AnnalsTests", dependencies: ["Annals", "AnnalsSync", "AnnalsTesting", "SeededRandom", logging], packageAccess: false,
            swiftSettings: settings),
        .testTarget(name: "AnnalsHTTPTests", dependencies: ["AnnalsHTTP"], exclude: ["server.py"], swiftSettings: settings),
    ] + systemTargets + fuzzTargets,
    swiftLanguageModes: [.v6]
)
