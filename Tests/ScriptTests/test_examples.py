"""Every Swift example in the guides, the documents and beside a public declaration is compiled and run: it stands, line by line,
in a test or in an example program."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = [path for folder in ("Tests", "Examples") for path in sorted((ROOT / folder).rglob("*.swift"))]
# The library's modules; the program's are read by nobody else.
MODULES = [path for path in sorted((ROOT / "Sources").iterdir()) if path.name.startswith("Annals") and path.name != "AnnalsCLI"]


def lines(text):
    """The lines that say something, without indentation and without comments at their ends."""
    stripped = (re.sub(r"(?<=\S)\s+// .*", "", line).strip() for line in text.splitlines())
    return [line for line in stripped if line]


def contains(haystack, needle):
    return any(haystack[at:at + len(needle)] == needle for at in range(len(haystack) - len(needle) + 1))


def fenced(text):
    """The Swift blocks of a document."""
    return re.findall(r"^ *```swift\n(.*?)^ *```", text, re.S | re.M)


def beside_declarations(text):
    """(declaration, block) for what is indented in the comments of a file's declarations."""
    found, comment = [], []
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        if stripped.startswith("///"):
            comment.append(stripped[3:].removeprefix(" "))
        elif not stripped.startswith("@") and comment:
            found += [(stripped, block) for block in indented(comment)]
            comment = []
    return found


def indented(comment):
    """The blocks of a comment that are indented by four spaces, each from an empty line to the next: what stands apart may stand
    apart in the test."""
    blocks, block, before = [], [], ""
    for line in [*comment, ""]:
        if line.startswith("    ") and (block or not before.strip()):
            block.append(line)
        elif block:
            blocks.append("\n".join(block))
            block = []
        before = line
    return blocks


class ExampleTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tests = [lines(path.read_text()) for path in SOURCES]

    def require(self, name, block):
        self.assertTrue(any(contains(test, lines(block)) for test in self.tests), f"{name}: no test has\n{block}")

    def test_guides(self):
        articles = sorted((ROOT / "Sources").rglob("*.docc/*.md"))
        self.assertTrue(articles)
        for article in articles:
            for block in fenced(article.read_text()):
                self.require(article.name, block)

    def test_documents(self):
        # ReadmeTests compares README's example with a program that it runs.
        blocks = [(path.name, block) for path in sorted((ROOT / "Documentation").glob("*.md"))
                  for block in fenced(path.read_text())]
        self.assertTrue(blocks)
        for name, block in blocks:
            with self.subTest(name=name):
                self.require(name, block)

    def test_public_declarations(self):
        count = 0
        for path in (path for module in MODULES for path in sorted(module.rglob("*.swift"))):
            for declaration, block in beside_declarations(path.read_text()):
                if re.match(r"(public|case)\b|$", declaration):
                    count += 1
                    with self.subTest(path=path.name):
                        self.require(f"{path.name}, {declaration}", block)
        self.assertGreater(count, 80)


class ReadingTests(unittest.TestCase):
    def test_blocks_of_comments(self):
        text = "\n".join([
            "/// What it is.", "///", "///     let a = 1", "///", "///     let b = 2   // two", "///", "/// Then:", "///     no block",
            "@discardableResult", "public func f() {}", "/// Nothing.", "func g() {}"])
        self.assertEqual(beside_declarations(text), [("public func f() {}", "    let a = 1"), ("public func f() {}", "    let b = 2   // two")])

    def test_comments_do_not_count(self):
        self.assertEqual(lines("  let b = 2   // two\n\n// three\n"), ["let b = 2", "// three"])
        self.assertTrue(contains(["x", "a", "b"], ["a", "b"]))
        self.assertFalse(contains(["a", "x", "b"], ["a", "b"]))


if __name__ == "__main__":
    unittest.main()
