import ArgumentParser
import Foundation

/// Options for commands that print text only.
struct PlainOutputOptions: ParsableArguments {
    @Flag(name: .customLong("no-color"), help: "Print without colours, as NO_COLOR in the environment does.")
    var noColor = false

    var console: Console { console(json: false) }

    fileprivate func console(json: Bool) -> Console {
        let environment = ProcessInfo.processInfo.environment
        let isPlain = noColor || !(environment["NO_COLOR"] ?? "").isEmpty || environment["TERM"] == "dumb"
        return Console(
            sink: StandardStreams.shared, style: Style(isColoured: !json && !isPlain && isatty(STDOUT_FILENO) == 1),
            showsProgress: isatty(STDERR_FILENO) == 1 && environment["TERM"] != "dumb")
    }
}

/// Options for commands that print results as text or as JSON.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON: one document, or one object per line.")
    var json = false

    @OptionGroup var plain: PlainOutputOptions

    var console: Console { plain.console(json: json) }
}
