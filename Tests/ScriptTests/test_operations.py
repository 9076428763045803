"""Documentation/operations.md names only commands and options that exist, and evidence.md has tests of each of its sections."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "Documentation/operations.md"
EVIDENCE = ROOT / "Documentation/evidence.md"
PROGRAM = ROOT / "Sources/AnnalsCLI"


def commands(text):
    """The command lines of the page's indented blocks, and those in the text."""
    blocks = [line.strip() for line in text.splitlines() if re.match(r" {4,}annals ", line)]
    return blocks + [" ".join(one.split()) for one in re.findall(r"`(annals [^`]+)`", text)]


def drills(names):
    """(suite, name) of the tests in a text."""
    return [(suite, " ".join(name.split())) for suite, name in re.findall(r"`(\w+)/([^`]+)`", names)]


class OperationsTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = PAGE.read_text()
        cls.program = "\n".join(path.read_text() for path in sorted(PROGRAM.rglob("*.swift")))

    def test_commands_exist(self):
        names = set(re.findall(r'commandName: "([\w-]+)"', self.program))
        flags = set(re.findall(r'customLong\("([\w-]+)"\)', self.program))
        flags |= {re.sub(r"([A-Z])", lambda match: "-" + match[1].lower(), name) for name in re.findall(r"\bvar (\w+)", self.program)}
        lines = commands(self.text)
        self.assertGreater(len(lines), 20)
        for line in lines:
            words = line.split()[1:]
            with self.subTest(line=line):
                self.assertIn(words[0], names)
                if words[0] == "relay":
                    self.assertIn(words[1], names)
                for word in words:
                    if word.startswith("--"):
                        self.assertIn(word[2:], flags)

    def test_every_section_names_drills_that_exist(self):
        suites = [path.read_text() for path in sorted((ROOT / "Tests").rglob("*.swift"))]
        sections = re.split(r"^## ", self.text, flags=re.M)[2:]
        self.assertEqual(len(sections), 6)
        items = re.findall(r"^- \*\*(.+?)\*\*: (.+?)(?=^- |^## |\Z)", EVIDENCE.read_text(), flags=re.M | re.S)
        evidence = {" ".join(title.split()): tests for title, tests in items}
        for section in sections:
            title = section.splitlines()[0]
            with self.subTest(section=title):
                found = drills(evidence.get(title, ""))
                self.assertTrue(found, "has no drill")
                for suite, name in found:
                    files = [text for text in suites if re.search(rf"\b(struct|class|actor) {suite}\b", text)]
                    forms = (f"func `{name}`(", f'@Test("{name}"')
                    self.assertTrue(any(form in text for form in forms for text in files), f"{suite} has no test {name}")


if __name__ == "__main__":
    unittest.main()
