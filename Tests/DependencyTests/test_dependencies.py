"""What an app that imports `Annals` links, held to what the documentation says; and the URLSession form, held to its types."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "Scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Dependencies(unittest.TestCase):
    def test_documentation_is_what_the_manifests_say(self):
        outcome = subprocess.run([ROOT / "Scripts" / "list-dependencies", "--check"], capture_output=True, text=True)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)

    def test_a_server_framework_is_refused(self):
        script = load("list-dependencies")

        class Invented:
            """An app's library that leads to SwiftNIO by two steps, and to a library of the system's that no app needs."""

            manifests = {
                "annals": {
                    "products": [{"name": "Annals", "targets": ["Annals"]}],
                    "targets": [
                        {"name": "Annals", "type": "regular", "dependencies": [{"byName": ["AnnalsSync", None]}]},
                        {"name": "AnnalsSync", "type": "regular", "dependencies": [
                            {"product": ["NIOCore", "swift-nio", None, None]},
                            {"product": ["AppleOnly", "apple-only", None, {"platformNames": ["ios"]}]},
                            {"target": ["CPostgres", None]},
                        ]},
                        {"name": "CPostgres", "type": "system", "pkgConfig": "libpq", "dependencies": []},
                    ],
                },
                "swift-nio": {
                    "products": [{"name": "NIOCore", "targets": ["NIOCore"]}],
                    "targets": [{"name": "NIOCore", "type": "regular", "dependencies": []}],
                },
            }

            def get(self, identity):
                return self.manifests[identity]

        graph = script.Graph(Invented())
        graph.add_product("annals", "Annals")
        self.assertEqual(
            list(graph.breaches()),
            [
                "NIOCore of the package swift-nio is linked by an app that imports Annals",
                "the system's libpq (CPostgres) is linked by an app that imports Annals",
            ])

    def test_urlsession_form_is_well_typed(self):
        outcome = subprocess.run([ROOT / "Scripts" / "check-urlsession"], capture_output=True, text=True)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)


if __name__ == "__main__":
    unittest.main()
