"""Documentation/merge-rules.md has every rule that is cited, and each of its rules names code and tests that exist."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "Documentation/merge-rules.md"
RULES = list(range(1, 49))
TEXT = (".swift", ".md", ".py", ".yaml")


def rules(text):
    """The rules of the page: number to text."""
    parts = re.split(r"^### (\d+)\. .*$", text, flags=re.M)
    return {int(number): re.split(r"^#{1,3} ", body, flags=re.M)[0] for number, body in zip(parts[1::2], parts[2::2])}


def cited(text):
    """Numbers after `merge rule` or `merge rules`: "merge rules 6, 7 and 9", "22 to 24", "22–24". Also of tests whose title
    begins with a rule: "func `Rule 27: …`"."""
    found = set()
    for match in re.finditer(r"(?:\bmerge rules?|`rules?)\s+(\d+(?:(?:,\s*|\s+and\s+|\s+to\s+|–)\d+)*)", text, re.I):
        found |= {int(number) for number in re.findall(r"\d+", match[1])}
    return found


def strays(text):
    """Citations in a form that leads nowhere."""
    return re.findall(r"\bMERGE(?:'s|,? rules?)\b|\bDESIGN(?:'s| \d)|(?<!merge )\brules? \d+ of\b", text)


def tests(text):
    """(suite, name) of the tests that a rule names."""
    names = text.partition("Tests:")[2]
    return [(suite, " ".join(name.split())) for suite, name in re.findall(r"`(\w+)/([^`]+)`", names)]


def sources():
    answer = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    names = [name for name in answer.stdout.splitlines() if name.endswith(TEXT) and name != "Tests/ScriptTests/test_merge_rules.py"]
    return {name: (ROOT / name).read_text(errors="replace") for name in names if (ROOT / name).is_file()}


class MergeRuleTests(unittest.TestCase):
    def test_every_rule_is_there(self):
        self.assertEqual(list(rules(PAGE.read_text())), RULES)

    def test_every_rule_names_code_and_tests(self):
        suites = [path.read_text() for path in sorted((ROOT / "Tests").rglob("*.swift"))]
        for number, text in rules(PAGE.read_text()).items():
            with self.subTest(rule=number):
                code = re.findall(r"\]\((\.\./[^)]+\.swift)\)", text.partition("Code:")[2])
                self.assertTrue(code, "names no code")
                for path in code:
                    self.assertTrue((PAGE.parent / path).is_file(), f"{path} is not there")
                named = tests(text)
                self.assertTrue(named, "names no test")
                for suite, name in named:
                    files = [text for text in suites if re.search(rf"\b(struct|class|actor|extension) {suite}\b", text)]
                    self.assertTrue(files, f"there is no suite {suite}")
                    title = re.escape(f'"{name}"')
                    form = rf"func `{re.escape(name)}`\(|func {re.escape(name)}\(|@Test\(\s*{title}"
                    self.assertTrue(any(re.search(form, text) for text in files), f"{suite} has no test {name}")

    def test_every_citation_leads_to_a_rule(self):
        known = set(rules(PAGE.read_text()))
        for name, text in sources().items():
            with self.subTest(name=name):
                self.assertEqual(cited(text) - known, set())
                self.assertEqual(strays(text), [])


class ReadingTests(unittest.TestCase):
    def test_citations(self):
        self.assertEqual(cited("Merge rules 22 to 24, and merge rule 9; a rule 3 of something"), {22, 24, 9})
        self.assertEqual(cited("func `Rule 27: moves`() and `Rules 4 and 60: no`"), {27, 4, 60})
        self.assertEqual(cited("merge rules 6,\n    7 and 47"), {6, 7, 47})
        self.assertEqual(strays("see MERGE's list, MERGE rule 3, DESIGN 8, rule 4 of it"), ["MERGE's", "MERGE rule", "DESIGN 8", "rule 4 of"])
        self.assertEqual(strays("MERGE INTO t; merge rules 10 and 11 of the page"), [])

    def test_rules_end_at_the_next_heading(self):
        self.assertEqual(rules("# A\n### 1. One\na\n## B\nb\n### 2. Two\nc\n"), {1: "\na\n", 2: "\nc\n"})
        self.assertEqual(tests("Tests: `ATests/one\n  two`, `BTests/three`."), [("ATests", "one two"), ("BTests", "three")])


if __name__ == "__main__":
    unittest.main()
