"""A running relay does what its OpenAPI document says, whatever it is asked: schemathesis asks.

Scripts/install-dependencies --tests puts it at .build/api-tests; SCHEMATHESIS names another one. ANNALS_API_EXAMPLES=n asks n times
each instead of 25 times.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "PageTests"))

from relay import ROOT, Relay  # noqa: E402

PROGRAM = os.environ.get("SCHEMATHESIS", str(ROOT / ".build" / "api-tests" / "bin" / "schemathesis"))
EXAMPLES = os.environ.get("ANNALS_API_EXAMPLES")

# What never ends, and the page's other files, which are all alike and have tests of their own.
LEFT_OUT = r"/events$|^/admin/(?!main)"


class TrueToItsDocument(unittest.TestCase):
    def setUp(self):
        # Many requests of the test have no valid token. Their limit has a test of its own.
        self.relay = Relay("--config", self.config())
        self.addCleanup(self.relay.close)
        self.admin = self.relay.token("--scope", "admin")
        self.relay.space("shop", self.admin, "laptop")

    def config(self):
        file = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.addCleanup(file.close)
        file.write("limits:\n  failed-logins-per-minute: 1000000\n")
        file.flush()
        return file.name

    def schemathesis(self, *arguments):
        # Nothing but this machine, and nothing of whoever runs this.
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(
                [PROGRAM, "--config-file", str(HERE / "schemathesis.toml"), "run", f"{self.relay.url}/openapi.json", "--no-color",
                 "--exclude-path-regex", LEFT_OUT, *arguments],
                cwd=folder, env={**environment, "ANNALS_API_TOKEN": self.admin, "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"), "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True,
                timeout=1800)

    def test_it_answers_as_documented_whatever_it_is_asked(self):
        answer = self.schemathesis(*(["--max-examples", EXAMPLES] if EXAMPLES else []))
        self.assertEqual(answer.returncode, 0, answer.stdout[-20000:] + answer.stderr[-5000:])
        self.assertIn("Tested:", answer.stdout)
        # It still is what it was before, and nothing was done in another's name.
        self.assertEqual(self.relay.ask("GET", "/health/ready")[0], 200)
        actors = {line["actor"] for line in self.relay.ask("GET", "/v1/admin/audit?limit=200", self.admin)[1]["lines"]}
        self.assertEqual({actor for actor in actors if not actor.startswith("cli (")}, {"token 1"})

    def test_the_event_stream_is_as_documented(self):
        document = self.relay.ask("GET", "/openapi.json")[1]
        documented = document["paths"]["/v1/spaces/{space}/events"]["get"]["responses"]
        request = urllib.request.Request(f"{self.relay.url}/v1/spaces/shop/events", headers={"Authorization": f"Bearer {self.admin}"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=300) as answer:
            self.assertEqual([*documented["200"]["content"]], [answer.headers["Content-Type"]])
            for name in documented["200"]["headers"]:
                self.assertIn(name, answer.headers)
            lines = [answer.readline().decode().strip() for _ in range(3)]
        self.assertEqual(lines[0], "event: head")
        self.assertEqual(json.loads(lines[2].removeprefix("data: "))["head"], int(lines[1].removeprefix("id: ").split("/")[0]))
        for token, status in ((None, 401), (self.relay.token("--space", "other"), 403)):
            code = self.relay.ask("GET", "/v1/spaces/shop/events", token)
            self.assertEqual(code[0], status)
            self.assertIn(code[1]["code"], documented[str(status)]["content"]["application/problem+json"]["schema"]["allOf"][1]
                          ["properties"]["code"]["enum"])


if __name__ == "__main__":
    unittest.main()
