"""Errors of the library speak to an app: no text of a library module names a command or an option of the program, except the hint for
the command line (`commandHint`)."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The program itself, and what tests use.
OTHERS = ("AnnalsCLI", "AnnalsTesting")
MODULES = [path for path in sorted((ROOT / "Sources").iterdir()) if path.name.startswith("Annals") and path.name not in OTHERS]

COMMAND = re.compile(r"\bannals [a-z]|(?<![\w-])--[a-z]")

# (file, text): these texts are no messages.
ALLOWED = {
    ("AnnalsWire/BatchSignature.swift", "annals batch"),  # the beginning of the signed bytes
    ("AnnalsWire/ReplicaKey.swift", "annals replica"),  # hashed into a replica's id
    ("AnnalsReplica/Snapshot/StoreDigest.swift", "annals digest 1\\n"),  # the beginning of the hashed bytes
}

STRING = re.compile(r'(#*)("""|")')
# A regex literal, which may have quotes: after an opening bracket or an operator, unlike a division.
REGEX = re.compile(r"#/.*?/#|(?:(?<=\()|(?<=[,=:] ))/(?![\s/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/", re.S)
WORD = re.compile(r"[A-Za-z_]\w*")


class Reader:
    """Reads Swift code, and collects its string literals: (line, text, whether it is for the command line). An interpolation is a
    space in the text, and its own literals are collected too.

    A literal is for the command line within an argument with the label `commandHint`, and within the body of a variable or function
    with this name.
    """

    def __init__(self, code):
        self.code = code
        self.literals = []
        # For each open bracket: the bracket, the label of the current argument, whether an argument begins here, and the name of the
        # function or variable that the line declares.
        self.open = [["", None, False, None]]
        self.read(0, len(code))

    def read(self, at, end):
        """Reads until the end, or until the bracket that closes what was open at the beginning. Returns the place after it."""
        code, depth = self.code, len(self.open)
        while at < end:
            top = self.open[-1]
            if code.startswith("//", at):
                at = code.find("\n", at) if "\n" in code[at:] else end
            elif code.startswith("/*", at):
                at = code.index("*/", at) + 2
            elif regex := REGEX.match(code, at):
                at = regex.end()
            elif string := STRING.match(code, at):
                top[2] = False
                at = self.read_string(string)
            elif word := WORD.match(code, at):
                at = word.end()
                if top[2] and re.match(r"\s*:", code[at:at + 80]):
                    top[1] = word[0]
                if word[0] in ("var", "func") and (name := re.match(r"\s+(\w+)", code[at:at + 200])):
                    top[3] = name[1]
                top[2] = False
            else:
                character = code[at]
                at += 1
                if character in "([{":
                    self.open.append([character, top[3] if character == "{" else None, True, None])
                elif character in ")]}":
                    if len(self.open) == depth and depth > 1:
                        return at
                    self.open.pop()
                elif character == "," and top[0] != "{":
                    top[1], top[2] = None, True
                elif character == "\n":
                    top[3] = None
                elif not character.isspace():
                    top[2] = False
        return at

    def read_string(self, string):
        """Reads a literal. Returns the place after it."""
        code, at = self.code, string.end()
        end, escape = string[2] + string[1], "\\" + string[1]
        text = ""
        while not code.startswith(end, at):
            if at >= len(code):
                raise ValueError(f"the text at {string.start()} does not end: {code[string.start():string.start() + 60]!r}")
            if code.startswith(escape + "(", at):
                self.open.append(["(", None, True, None])
                at = self.read(at + len(escape) + 1, len(code))
                self.open.pop()
                text += " "
            else:
                length = len(escape) + 1 if code.startswith(escape, at) else 1
                text += code[at:at + length]
                at += length
        line = code.count("\n", 0, string.start()) + 1
        self.literals.append((line, text, any(label == "commandHint" for _, label, _, _ in self.open)))
        return at + len(end)


def breaches(code):
    """(line, text) of literals that name a command or an option and are not for the command line."""
    return [(line, text) for line, text, isForCommandLine in Reader(code).literals if COMMAND.search(text) and not isForCommandLine]


class HintTests(unittest.TestCase):
    def test_the_library_names_no_command(self):
        allowed = set()
        for module in MODULES:
            for path in sorted(module.rglob("*.swift")):
                name = str(path.relative_to(ROOT / "Sources"))
                for line, text in breaches(path.read_text()):
                    if (name, text) in ALLOWED:
                        allowed.add((name, text))
                        continue
                    self.fail(f"Sources/{name}:{line}: \"{text}\" names a command: say it in commandHint, and in hint what an app does")
        self.assertEqual(allowed, ALLOWED)

    def test_the_library_has_hints_for_the_command_line(self):
        files = [path.read_text() for module in MODULES for path in module.rglob("*.swift")]
        found = [text for code in files for _, text, isForCommandLine in Reader(code).literals if isForCommandLine and COMMAND.search(text)]
        self.assertGreater(len(found), 30)


class ReadingTests(unittest.TestCase):
    def test_literals(self):
        code = 'let a = "one \\(b ?? "two") three" // "four"\nf("""\n  five "\\(g)"\n  """, #"six \\("#)'
        self.assertEqual([text for _, text, _ in Reader(code).literals], ["two", "one   three", '\n  five " "\n  ', "six \\("])

    def test_regex_literals_are_no_texts(self):
        code = 'a.wholeMatch(of: /"(?:[^"/]|"")+"/) ; b(/"/) ; c(#/x"/#) ; let d = 6 / 2 ; "e" + f / "g".h // "i" / "j"'
        self.assertEqual([text for _, text, _ in Reader(code).literals], ["e", "g"])

    def test_what_is_for_the_command_line(self):
        error = 'AnnalsError(.busy, "it is locked", hint: "{}", commandHint: {}, isRetryable: g("{}"))'
        self.assertEqual(breaches(error.format("Call a()", '"annals a"', "b")), [])
        self.assertEqual(breaches(error.format("Call a()", 'x == "s" ? f("annals a") : "x \\(y) " + "--all"', "b")), [])
        self.assertEqual(breaches(error.format("Run annals a", '"annals b"', "--c")), [(1, "Run annals a"), (1, "--c")])
        self.assertEqual(breaches('var commandHint: String? {\n    switch self { case .a: "annals a"\n    default: nil }\n}'), [])
        self.assertEqual(breaches('var hint: String {\n    "annals a"\n}\nvar commandHint: String\nif b { "--c" }'), [(2, "annals a"), (5, "--c")])

    def test_names_and_sql_are_no_commands(self):
        self.assertEqual(breaches('f("annals_log", "Annals is here", "annals-key-1:", "SELECT 1 -- all", "a--b", "-- x")'), [])


if __name__ == "__main__":
    unittest.main()
