"""Each rule of Scripts/check-repository sees its breach, and leaves good files alone."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "Scripts" / "check-repository"


class CheckRepository(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.git("init", "--quiet")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.root, check=True, capture_output=True)

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def breaches(self):
        answer = subprocess.run([SCRIPT, str(self.root)], capture_output=True, text=True)
        lines = answer.stderr.splitlines()
        self.assertEqual(answer.returncode, 1 if lines else 0, answer.stderr)
        return lines[:-1]

    def assertBreach(self, *expected):
        found = self.breaches()
        self.assertEqual(len(found), len(expected), found)
        for line, part in zip(found, expected):
            self.assertIn(part, line)

    def test_good_files_pass(self):
        self.write("Sources/AnnalsWire/Batch.swift", "internal import AnnalsCore\npublic import Foundation\n// a sleeper, an alias!\n")
        self.write("Sources/AnnalsSync/A.swift", "try await clock.sleep(for: pause)\n")
        self.write("Tests/AnnalsWireTests/A.swift", "import Testing\n@testable import AnnalsWire\n")
        self.assertBreach()

    def test_an_upward_import_is_a_breach(self):
        self.write("Sources/AnnalsCore/A.swift", "@preconcurrency public import struct AnnalsStore.Store\n")
        self.write("Server/RelayLog/B.swift", "internal import AnnalsMerge\n")
        self.assertBreach("RelayLog must not import AnnalsMerge", "A.swift:1: AnnalsCore must not import AnnalsStore")

    def test_modules_that_import_one_another_are_found(self):
        loader = importlib.machinery.SourceFileLoader("check_repository", str(SCRIPT))
        script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(script)
        self.assertEqual(script.cycles({"A": ["B"], "B": ["C"], "C": ["B"]}), [["B", "C", "B"]])
        self.assertEqual(script.cycles({"A": ["B", "C"], "B": ["C"], "C": []}), [])

    def test_a_pure_module_imports_no_input_or_output(self):
        self.write("Sources/AnnalsMerge/A.swift", "import GRDB\n")
        self.assertBreach("AnnalsMerge is pure")

    def test_an_unlisted_module_is_a_breach(self):
        self.write("Sources/AnnalsNovel/A.swift", "import AnnalsCore\n")
        self.assertBreach("AnnalsNovel is not in Scripts/check-repository")

    def test_each_forbidden_word_is_a_breach(self):
        for word in ("// TODO: later", "// FIXME", "fatalError()", "try! f()", "let id: Int64 = row[\"id\"]", "x as! Int", "try await Task.sleep(for: .seconds(1))"):
            with self.subTest(word):
                self.write("Server/Relay/A.swift", word + "\n")
                self.assertBreach("Server/Relay/A.swift:1: ")

    def test_a_test_neither_sleeps_its_thread_nor_uses_the_old_framework(self):
        self.write("Tests/AnnalsTests/A.swift", "import XCTest\nusleep(5)\n")
        self.assertBreach("A.swift:2: `usleep(`", "A.swift:1: `import XCTest`")

    def test_a_long_swift_file_is_a_breach(self):
        self.write("Tests/AnnalsTests/A.swift", "\n" * 501)
        self.assertBreach("501 lines, at most 500")

    def test_markup_in_a_script_of_the_page_is_a_breach(self):
        self.write("Server/Relay/Page/a.js", "place.innerHTML = name;\n" + "\n" * 500)
        self.assertBreach("a.js: 501 lines, at most 500", "a.js:1: `innerHTML`")

    def test_sql_on_one_of_our_tables_in_two_files_is_a_breach(self):
        self.write("Sources/AnnalsSchema/OwnTables.swift", 'static let history = ["annals_meta", "annals_spans"]\n')
        self.write("Sources/AnnalsHistory/A.swift", 'db.execute("DELETE FROM main.annals_spans WHERE x")\ndb.tableExists("annals_meta")\n')
        self.write("Sources/AnnalsHistory/B.swift", '/// Not FROM annals_spans.\nlet a = "FROM annals_spans_of_another"\n')
        self.write("Sources/AnnalsHistory/C.swift", 'let a = "UPDATE annals_meta"\nlet b = """\n    INSERT OR IGNORE INTO\n      annals_spans VALUES (1)\n"""\n')
        self.write("Tests/AnnalsTests/D.swift", 'let a = "FROM annals_spans"\n')
        self.assertBreach(
            "A.swift:2: the name annals_meta must come from Sources/AnnalsSchema/OwnTables.swift",
            "C.swift:4: SQL on annals_spans belongs in Sources/AnnalsHistory/A.swift",
        )

    def test_built_files_in_git_are_a_breach(self):
        self.write("Package.resolved", "{}")
        self.write(".build-asan/a.o", "")
        self.git("add", "--force", ".")
        self.assertBreach(".build-asan/a.o: must not be in git", "Package.resolved: must not be in git")

    def test_a_long_line_of_prose_is_a_breach(self):
        row, code, link = "| " + "cell " * 30 + "|", "```\n" + "code " * 30 + "\n```", "<https://example.org/" + "a" * 120 + ">"
        self.write("A.md", "\n\n".join([row, code, link, "word " * 25]) + "\n")
        self.assertBreach("A.md:9: 125 characters")

    def test_dead_links_are_breaches(self):
        self.write("B.md", "# Two words\n## `Code` & more\n## Two words\n")
        self.write(
            "A.md",
            "[a](B.md) [b](B.md#two-words) [c](B.md#two-words-1) [d](B.md#code--more) [e](https://example.com/x)\n"
            "```\n[not a link](nowhere.md)\n```\n`[nor](this.md)`\n"
            "[f](C.md)\n[g](B.md#three)\n[h](#here)\n[i]: Docs/none.md\n",
        )
        self.assertBreach("A.md:6: link leads nowhere: C.md", "A.md:7: no such heading", "A.md:8: no such heading", "A.md:9: ")

    def test_usage(self):
        self.assertEqual(subprocess.run([SCRIPT, "--what"], capture_output=True).returncode, 64)


if __name__ == "__main__":
    unittest.main()
