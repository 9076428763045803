/// The module that an app imports. `import Annals` provides the store, its history, the agent that syncs it, and GRDB, with whose
/// records and requests an app reads and writes its rows.
///
///     let store = try Store(path: path)
///     try await store.track(.all)
@_exported public import AnnalsCore
@_exported public import AnnalsHTTP
@_exported public import AnnalsHistory
@_exported public import AnnalsReplica
@_exported public import AnnalsRows
@_exported public import AnnalsSchema
@_exported public import AnnalsStore
@_exported public import AnnalsSync
@_exported public import AnnalsWire
@_exported public import GRDB
