"""A relay of its own with two stores, by the built program."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ANNALS", str(ROOT / ".build" / "debug" / "annals"))


class Relay:
    """Serves in a temporary folder until it is closed."""

    def __init__(self, *arguments):
        self.folder = tempfile.mkdtemp(prefix="annals-page-")
        self.arguments = arguments
        self.url = "http://127.0.0.1:0"
        self.start()

    def start(self):
        """Serves, at the same address as before if it did."""
        self.process = subprocess.Popen(
            [PROGRAM, "relay", "serve", "--data", "relay-data", "--listen", self.url.removeprefix("http://"), *self.arguments],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.match(r"listening on (http://\S+)", line)
        if not found:
            raise AssertionError(f"the relay does not listen: {line}")
        self.url = found.group(1)

    def annals(self, *arguments, token=None):
        environment = {name: value for name, value in os.environ.items() if name != "ANNALS_CREDENTIAL"}
        if token:
            environment["ANNALS_CREDENTIAL"] = token
        answer = subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600)
        if answer.returncode:
            raise AssertionError(f"annals {' '.join(arguments)}: {answer.stderr}")
        return answer.stdout.strip()

    def token(self, *arguments):
        return self.annals("relay", "token", "create", "--data", "relay-data", *arguments)

    def sql(self, store, text):
        subprocess.run(["sqlite3", "-cmd", ".timeout 5000", store, text], cwd=self.folder, check=True, capture_output=True)

    def space(self, name, token, *others):
        """A space with two stores and more, some pushes and a snapshot after the first."""
        first = f"{name}-till.db"
        self.sql(first, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item(name) VALUES ('tea')")
        self.annals("track", first, "--all")
        self.annals("join", first, "--relay", self.url, "--space", name, "--name", "till", token=token)
        for other in others:
            self.annals("clone", self.url, name, f"{name}-{other}.db", "--name", other, token=token)
            self.annals("sync", f"{name}-{other}.db", token=token)
        for number in range(6):
            self.push(name, "till", token, number)

    def push(self, name, store, token, number=0):
        self.sql(f"{name}-{store}.db", f"INSERT INTO item(name) VALUES ('{store} {number}')")
        self.annals("sync", f"{name}-{store}.db", token=token)

    def ask(self, method, path, token=None, body=None):
        """The status of an answer and what it says."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=300) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text.startswith(b"{") else text
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"{}")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()

    def close(self):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
