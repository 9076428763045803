import Foundation
import GRDBSQLite

/// SQLite's session extension, if the system's library contains it. It records changes and applies them to other files.
///
/// Its functions are looked up by name, because the library's header declares them only if SQLite was compiled with it.
struct SessionExtension {
    private typealias Create = @convention(c) (OpaquePointer?, UnsafePointer<CChar>, UnsafeMutablePointer<OpaquePointer?>) -> Int32
    private typealias Attach = @convention(c) (OpaquePointer?, UnsafePointer<CChar>?) -> Int32
    private typealias Changeset =
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<Int32>, UnsafeMutablePointer<UnsafeMutableRawPointer?>
        ) -> Int32
    private typealias Delete = @convention(c) (OpaquePointer?) -> Void
    private typealias Conflict = @convention(c) (UnsafeMutableRawPointer?, Int32, OpaquePointer?) -> Int32
    private typealias Filter = @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<CChar>?) -> Int32
    private typealias Apply =
        @convention(c) (
            OpaquePointer?, Int32, UnsafeMutableRawPointer?, Filter?, Conflict?, UnsafeMutableRawPointer?
        ) -> Int32

    private let create: Create
    private let attach: Attach
    private let changeset: Changeset
    private let delete: Delete
    private let apply: Apply

    /// nil if the library was built without the extension.
    init?() {
        func find<Function>(_ name: String, _: Function.Type) -> Function? {
            dlsym(nil, name).map { unsafeBitCast($0, to: Function.self) }
        }
        guard let create = find("sqlite3session_create", Create.self), let attach = find("sqlite3session_attach", Attach.self),
            let changeset = find("sqlite3session_changeset", Changeset.self), let delete = find("sqlite3session_delete", Delete.self),
            let apply = find("sqlite3changeset_apply", Apply.self)
        else { return nil }
        (self.create, self.attach, self.changeset, self.delete, self.apply) = (create, attach, changeset, delete, apply)
    }

    /// The changes of `work` as a changeset.
    func record(_ connection: BareConnection, _ work: () throws -> Void) throws -> [UInt8] {
        var session: OpaquePointer?
        guard create(connection.handle, "main", &session) == SQLITE_OK, attach(session, nil) == SQLITE_OK else {
            throw connection.failure()
        }
        defer { delete(session) }
        try work()
        var count: Int32 = 0
        var bytes: UnsafeMutableRawPointer?
        guard changeset(session, &count, &bytes) == SQLITE_OK else { throw connection.failure() }
        defer { sqlite3_free(bytes) }
        return Array(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
    }

    /// Applies a changeset. A conflict ends it with an error.
    func apply(_ changes: [UInt8], to connection: BareConnection) throws {
        var changes = changes
        let code = changes.withUnsafeMutableBytes { apply(connection.handle, Int32($0.count), $0.baseAddress, nil, { _, _, _ in 2 }, nil) }
        guard code == SQLITE_OK else { throw connection.failure() }
    }
}
