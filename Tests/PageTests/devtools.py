"""A headless Chromium, driven over its DevTools protocol with the standard library alone."""

import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import urllib.request

DEADLINE = 300  # seconds that anything may take


class WebSocket:
    """As much of RFC 6455 as a client needs that trusts its server."""

    def __init__(self, address):
        host, port, path = re.fullmatch(r"ws://([^:/]+):(\d+)(/.*)", address).groups()
        self.socket = socket.create_connection((host, int(port)), timeout=DEADLINE)
        self.buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(head.decode(errors="replace"))

    def fill(self):
        more = self.socket.recv(1 << 16)
        if not more:
            raise ConnectionError("Chromium closed the connection")
        self.buffer += more

    def take(self, count):
        while len(self.buffer) < count:
            self.fill()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def send(self, text):
        data = text.encode()
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x81, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x81, 0xFE, size)
        else:
            head = struct.pack("!BBQ", 0x81, 0xFF, size)
        # The mask may be anything, and zeros are the same as none.
        self.socket.sendall(head + b"\0\0\0\0" + data)

    def receive(self):
        message = b""
        while True:
            first, second = self.take(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self.take(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self.take(8))
            data = self.take(size)
            if first & 0x0F in (0, 1, 2):
                message += data
                if first & 0x80:
                    return message.decode()


class Chromium:
    """A browser of its own with a profile that goes with it; it finds no host but this machine."""

    def __init__(self):
        program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        if not program:
            raise FileNotFoundError("there is no chromium here (Scripts/install-dependencies --tests installs it)")
        self.profile = tempfile.mkdtemp(prefix="annals-chromium-")
        arguments = [
            program, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={self.profile}", "--no-first-run",
            "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--disable-extensions", "--no-proxy-server", "--lang=en-US", "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            # Root may have none, nor may a container; and the pages are ours.
            "--no-sandbox",
        ]
        self.process = subprocess.Popen(
            arguments + ["about:blank"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"DevTools listening on ws://([^/]+)/", line)
            if found:
                self.address = found.group(1)
                break
        else:
            raise ConnectionError("Chromium did not start")

    def page(self):
        request = urllib.request.Request(f"http://{self.address}/json/new?about:blank", method="PUT")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=DEADLINE) as answer:
            return Page(json.load(answer)["webSocketDebuggerUrl"])

    def close(self):
        self.process.terminate()
        self.process.wait(DEADLINE)
        self.process.stderr.close()
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """One tab, with what it asked for and complained of."""

    def __init__(self, address):
        self.socket = WebSocket(address)
        self.count = 0
        self.requests = []
        self.complaints = []
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility", "DOM"):
            self.send(f"{domain}.enable")
        # As if someone looked at it: only then the keyboard is this tab's.
        self.send("Page.bringToFront")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def send(self, method, **parameters):
        self.count += 1
        number = self.count
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.note(message)

    def close(self):
        self.send("Page.close")
        self.socket.socket.close()

    def note(self, event):
        name, values = event.get("method"), event.get("params", {})
        if name == "Network.requestWillBeSent":
            self.requests.append(values["request"])
        elif name == "Runtime.exceptionThrown":
            self.complaints.append(str(values["exceptionDetails"].get("exception", values["exceptionDetails"])))
        elif name == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{values['entry']['text']} {values['entry'].get('url', '')}")
        elif name == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(values["args"]))

    def run(self, script):
        """The value of an expression, awaited if it is a promise."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return answer["result"].get("value")

    def wait(self, condition):
        """Until an expression is true."""
        script = f"""new Promise((done) => {{
            const end = performance.now() + {DEADLINE * 500};
            (function look() {{
                let value; try {{ value = {condition}; }} catch {{ value = false; }}
                if (value || performance.now() > end) done(Boolean(value)); else setTimeout(look, 20);
            }})();
        }})"""
        if not self.run(script):
            raise AssertionError(f"not within {DEADLINE // 2} s: {condition}\n{self.run('document.body.innerText')}")

    def open(self, address):
        self.send("Page.navigate", url=address)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(address)})")

    def show(self, width, height, dark=False, motion=True):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "no-preference" if motion else "reduce"},
        ])

    def press(self, key, modifiers=0):
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
        values = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": codes[key], "modifiers": modifiers}
        text = {"Enter": "\r", " ": " "}.get(key)
        self.send("Input.dispatchKeyEvent", type="keyDown", **values, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **values)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def click(self, words, within="document"):
        """Clicks the button or link that says so, as a mouse would."""
        place = self.run(f"""(() => {{
            const found = [...{within}.querySelectorAll('button, a')].find((one) => one.checkVisibility()
                && (one.getAttribute('aria-label') ?? one.textContent).trim() === {json.dumps(words)});
            if (!found) return null;
            found.scrollIntoView({{ block: 'center', behavior: 'instant' }});
            const box = found.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        if place is None:
            raise AssertionError(f"nothing says {words}:\n{self.run('document.body.innerText')}")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def picture(self, file):
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})["data"]
        with open(file, "wb") as out:
            out.write(base64.b64decode(data))

    def names(self):
        """Role and name of everything that assistive technology is told of."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "").strip()) for node in nodes if not node.get("ignored")]
