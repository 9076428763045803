"""What `Scripts/count-instructions` takes for a regression."""

import importlib.machinery
import importlib.util
import json
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "Scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class CountInstructions(unittest.TestCase):
    script = load("count-instructions")

    def test_more_than_the_tolerance_is_refused(self):
        line, is_fine = self.script.compare("apply", 1_040_000, 1_000_000)
        self.assertFalse(is_fine)
        self.assertIn("too much", line)

    def test_some_more_is_noise(self):
        self.assertTrue(self.script.compare("apply", 1_020_000, 1_000_000)[1])

    def test_much_less_is_told(self):
        line, is_fine = self.script.compare("apply", 900_000, 1_000_000)
        self.assertTrue(is_fine)
        self.assertIn("less", line)

    def test_the_baseline_has_every_loop(self):
        baseline = json.loads(self.script.BASELINE.read_text())
        self.assertEqual(sorted(baseline["loops"]), sorted(self.script.LOOPS))
        self.assertEqual(sorted(baseline["platform"]), ["machine", "sqlite", "swift"])


if __name__ == "__main__":
    unittest.main()
