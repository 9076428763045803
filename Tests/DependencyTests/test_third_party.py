"""The bill of materials and the notices of the built program, held to the linker's own list."""

import collections
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "Scripts" / "third-party"


def load():
    loader = importlib.machinery.SourceFileLoader("third_party", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def make(folder):
    subprocess.run([SCRIPT, "--configuration", "debug", "--output", folder], check=True, capture_output=True)
    return [(pathlib.Path(folder) / name).read_text(encoding="utf-8") for name in ["annals.cdx.json", "THIRD-PARTY-NOTICES.txt"]]


class ThirdParty(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.text, cls.notices = make(folder)
        cls.bill = json.loads(cls.text)

    def values(self, name):
        return [one["value"] for component in self.bill["components"] for one in component.get("properties", []) if one["name"] == name]

    def test_each_linked_module_is_of_one_component(self):
        listed = (ROOT / ".build" / "debug" / "annals.product" / "Objects.LinkFileList").read_text(encoding="utf-8")
        linked = set(re.findall(r"/([^/]+)\.build/", listed))
        own = {folder.name for top in ["Sources", "Server"] for folder in (ROOT / top).iterdir()}
        counts = collections.Counter(self.values("annals:module"))
        self.assertEqual(set(counts), linked - own)
        self.assertEqual([module for module, count in counts.items() if count != 1], [])

    def test_each_library_that_is_loaded_is_of_one_component(self):
        needed = subprocess.run(["readelf", "-dW", ROOT / ".build" / "debug" / "annals"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(sorted(self.values("annals:library")), sorted(re.findall(r"\(NEEDED\).*\[(.+)\]", needed)))

    def test_each_component_has_its_license_in_the_notices(self):
        sections = self.notices.split("=" * 100 + "\n")[1:]
        for component in self.bill["components"]:
            within = [one["value"] for one in component.get("properties", []) if one["name"] == "annals:vendored-in"]
            parts = [component["name"], component.get("version")] + [f"(in {name})" for name in within]
            title = " ".join(part for part in parts if part)
            of = [section for section in sections if re.search(rf"^\* {re.escape(title)}(:|$)", section, re.MULTILINE)]
            self.assertEqual(len(of), 1, title)
            self.assertRegex(of[0], r"(?i)permi(t|ssion)|licen[cs]e|waived", title)
            self.assertGreater(len(of[0]), 300, title)

    def test_the_bill_has_what_the_format_requires(self):
        bill = self.bill
        self.assertEqual((bill["bomFormat"], bill["specVersion"], bill["version"]), ("CycloneDX", "1.5", 1))
        refs = [bill["metadata"]["component"]["bom-ref"]] + [component["bom-ref"] for component in bill["components"]]
        self.assertEqual(len(refs), len(set(refs)))
        self.assertEqual(sorted(refs), sorted(one["ref"] for one in bill["dependencies"]))
        self.assertLessEqual({ref for one in bill["dependencies"] for ref in one.get("dependsOn", [])}, set(refs))
        for component in bill["components"]:
            self.assertLessEqual({"type", "bom-ref", "name", "purl", "licenses"}, set(component), component["name"])
            self.assertRegex(component["purl"], r"^pkg:(swift/github\.com/.+@.+|generic/[a-z-]+|generic/.+@.+|deb/debian/.+@.+\?arch=.+)$")
            self.assertEqual(len(component["licenses"]), 1)
        names = {component["name"] for component in bill["components"]}
        self.assertLessEqual({"swift-nio", "grdb.swift", "BoringSSL", "XKCP", "llhttp", "libyaml", "fiat-crypto", "swift"}, names)

    def test_the_same_build_gives_the_same_bytes_and_no_place_of_this_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(make(folder), [self.text, self.notices])
        for place in [str(ROOT), str(pathlib.Path.home()) + "/", "/.build/", "localhost", "127.0.0.1"]:
            self.assertNotIn(place, self.text)
            self.assertNotIn(place, self.notices)

    def test_what_nobody_has_looked_at_is_an_error(self):
        script = load()
        build = script.Build(ROOT, "debug")
        script.OWN_C_MODULES.remove("CSystem")
        with self.assertRaisesRegex(script.Problem, "^CSystem of swift-system is C that nobody has looked at"):
            list(script.package_components(build))
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(script.Problem, "^swift-made-up is linked and has no license file$"):
                script.license_text(pathlib.Path(folder), "swift-made-up")
        with self.assertRaisesRegex(script.Problem, "^the license of swift-made-up is none that this script knows$"):
            script.license_of("swift-made-up", "All rights reserved.")
        with self.assertRaisesRegex(script.Problem, "^the address that swift-made-up has .* is not the one of its repository$"):
            script.upstream("swift-made-up", "https://mirror.example.org/swift-made-up.git")


if __name__ == "__main__":
    unittest.main()
