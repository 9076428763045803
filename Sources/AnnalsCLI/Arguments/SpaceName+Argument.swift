public import AnnalsCore
public import ArgumentParser

extension SpaceName: ExpressibleByArgument {
    public init?(argument: String) {
        self.init(argument)
    }
}
