import AnnalsCore
import ArgumentParser

extension SpaceName: @retroactive ExpressibleByArgument {
    public init?(argument: String) {
        self.init(argument)
    }
}
