import AnnalsReplica
public import AnnalsStore
public import ArgumentParser

extension ExistingRows: ExpressibleByArgument {}
extension JoinedSchema: ExpressibleByArgument {}
