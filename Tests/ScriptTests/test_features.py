"""Every test that Documentation/features.md names is there, and every row names one."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [f"{group}{number}" for group, count in zip("ABCDEFG", (13, 6, 5, 5, 9, 10, 8)) for number in range(1, count + 1)]


class FeatureTests(unittest.TestCase):
    def test_named_tests_exist(self):
        sources = [path.read_text() for path in sorted((ROOT / "Tests").rglob("*.swift"))]
        rows = []
        for line in (ROOT / "Documentation/features.md").read_text().splitlines():
            match = re.match(r"\| ([A-G]\d+) \| (.*) \| (.*) \|$", line)
            if not match:
                continue
            rows.append(match[1])
            tests = re.findall(r"`(\w+)/([^`]+)`", match[3])
            self.assertTrue(tests, f"{match[1]} names no test")
            for suite, name in tests:
                files = [text for text in sources if re.search(rf"\b(struct|class|actor|extension) {suite}\b", text)]
                self.assertTrue(files, f"{match[1]}: there is no suite {suite}")
                found = any(f"func {name}(" in text or f"func `{name}`(" in text for text in files)
                self.assertTrue(found, f"{match[1]}: {suite} has no test {name}")
        self.assertEqual(rows, ROWS)


if __name__ == "__main__":
    unittest.main()
