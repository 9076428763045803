import AnnalsReplica
public import AnnalsStore
public import ArgumentParser

extension ExistingRows: ExpressibleByArgument {}
extension SuggestedReferences: ExpressibleByArgument {}
extension JoinedSchema: ExpressibleByArgument {}
