/// What an app imports: `import Annals` brings the store, its history and the agent that keeps it in step.
///
///     let store = try Store(path: "shop.db")
///     try await store.track(.all)
@_exported public import AnnalsCore
@_exported public import AnnalsHTTP
@_exported public import AnnalsStore
@_exported public import AnnalsSync
