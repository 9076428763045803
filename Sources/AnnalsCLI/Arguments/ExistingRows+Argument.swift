public import AnnalsStore
public import ArgumentParser

extension ExistingRows: ExpressibleByArgument {}
