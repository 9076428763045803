"""Every Swift example in the library's guides is compiled and run: it stands, line by line, in a test."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def lines(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def contains(haystack, needle):
    return any(haystack[at:at + len(needle)] == needle for at in range(len(haystack) - len(needle) + 1))


class GuideTests(unittest.TestCase):
    def test_examples_are_in_tests(self):
        sources = [lines(path.read_text()) for path in sorted((ROOT / "Tests").rglob("*.swift"))]
        articles = sorted((ROOT / "Sources").rglob("*.docc/*.md"))
        self.assertTrue(articles)
        for article in articles:
            for block in re.findall(r"^```swift\n(.*?)^```", article.read_text(), re.S | re.M):
                found = any(contains(source, lines(block)) for source in sources)
                self.assertTrue(found, f"{article.name}: no test has\n{block}")


if __name__ == "__main__":
    unittest.main()
