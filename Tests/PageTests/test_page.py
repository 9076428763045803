"""The operator's page in a real browser: what it shows and does, on a phone, with the keyboard, in the dark, to a screen reader."""

import pathlib
import re
import unittest
from urllib.parse import urlsplit

from devtools import Chromium
from relay import Relay

MEASURES = (pathlib.Path(__file__).parent / "measures.js").read_text()

# Each view, how one gets there, and what shows that it is there.
VIEWS = {
    "spaces": ("#/spaces", "document.querySelector('.spaces .card')"),
    "space": ("#/spaces/shop", "document.querySelectorAll('.timeline li').length > 4 && document.querySelector('.live')"),
    "tokens": ("#/tokens", "document.querySelector('table')"),
    "audit": ("#/audit", "document.querySelector('table')"),
}

USED = ("button", "link", "textbox", "combobox", "checkbox", "spinbutton", "image", "dialog", "table", "log", "region", "navigation")


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.relay = Relay("--snapshot-after-positions", "3")
        cls.addClassCleanup(cls.relay.close)
        cls.admin = cls.relay.token("--scope", "admin", "--label", "operator")
        cls.relay.space("shop", cls.admin, "laptop", "phone")
        cls.chromium = Chromium()
        cls.addClassCleanup(cls.chromium.close)

    def setUp(self):
        self.page = self.chromium.page()
        self.addCleanup(self.page.close)
        self.page.show(1200, 800, motion=False)

    def sign_in(self, token=None, view="spaces"):
        address, there = VIEWS[view]
        self.page.open(f"{self.relay.url}/admin{address}")
        self.page.wait("document.querySelector('input[type=password]')")
        self.page.run("document.querySelector('input[type=password]').focus()")
        self.page.type(token or self.admin)
        self.page.press("Enter")
        self.page.wait(there)

    def measure(self, name):
        return self.page.run(f"({MEASURES}).{name}()")

    def text(self, within="body"):
        return self.page.run(f"document.querySelector({within!r}).innerText")

    def go(self, view):
        address, there = VIEWS[view]
        self.page.run(f"location.hash = '{address}'")
        self.page.wait(f"location.hash === '{address}' && {there}")

    def dialogs(self):
        """Opens every dialog of every view, and yields its name."""
        for view, words in (("space", "Retire laptop"), ("tokens", "Create a token"), ("tokens", "Revoke operator")):
            self.go(view)
            self.page.click(words)
            self.page.wait("document.querySelector('dialog[open]')")
            yield words
            self.page.press("Escape")
            self.page.wait("!document.querySelector('dialog')")

    def test_it_asks_nobody_else_and_complains_of_nothing(self):
        self.sign_in()
        for view in VIEWS:
            self.go(view)
        self.assertEqual({urlsplit(one["url"]).netloc for one in self.page.requests}, {urlsplit(self.relay.url).netloc})
        self.assertEqual(self.page.complaints, [])
        # The token is in a header, and nowhere that outlives or leaves the tab.
        self.assertNotIn(self.admin, "".join(one["url"] for one in self.page.requests))
        self.assertEqual(self.page.run("[document.cookie, localStorage.length]"), ["", 0])
        self.assertEqual(self.page.run("Object.values(sessionStorage)"), [self.admin])

    def test_a_foreign_script_does_not_run(self):
        self.sign_in()
        self.page.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.foreign = 1'}))")
        self.assertIsNone(self.page.run("window.foreign"))
        self.assertIn("Content Security Policy", "".join(self.page.complaints))

    def test_nothing_sticks_out_on_a_phone(self):
        self.page.show(360, 740, motion=False)
        self.sign_in()
        for view in VIEWS:
            self.go(view)
            self.assertEqual(self.measure("overflow"), [], view)
        for name in self.dialogs():
            self.assertEqual(self.measure("overflow"), [], name)

    def test_text_stands_out_from_what_is_behind_it(self):
        for dark in (False, True):
            self.page.send("Page.navigate", url="about:blank")
            self.page.show(1200, 800, dark, motion=False)
            self.page.open(f"{self.relay.url}/admin")
            self.page.run("sessionStorage.clear()")
            self.page.open(f"{self.relay.url}/admin?{int(dark)}")
            self.page.wait("document.querySelector('input[type=password]')")
            self.assertEqual(self.measure("faint"), [], f"sign in, dark: {dark}")
            self.sign_in()
            for width in (1200, 360):
                self.page.show(width, 800, dark, motion=False)
                for view in VIEWS:
                    self.go(view)
                    self.assertEqual(self.measure("faint"), [], f"{view} at {width}, dark: {dark}")
                for name in self.dialogs():
                    self.assertEqual(self.measure("faint"), [], f"{name} at {width}, dark: {dark}")
            self.page.run("sessionStorage.clear()")

    def assert_tab_reaches_all(self, view):
        wanted = self.measure("all")
        reached = []
        self.page.run("document.activeElement.blur()")
        for _ in range(len(wanted) + 3):
            self.page.press("Tab")
            focused = self.measure("focused")
            if focused["name"] is None or focused["name"].startswith(("body", "html")):
                continue
            self.assertTrue(focused["visible"], f"one cannot see the focus on {focused['name']} in {view}")
            reached.append(focused["name"])
        self.assertEqual(sorted(set(wanted) - set(reached)), [], view)
        self.assertEqual(sorted(set(reached) - set(wanted)), [], f"reached beyond {view}")
        return reached

    def test_the_tab_key_reaches_everything_and_shows_where_it_is(self):
        self.page.open(f"{self.relay.url}/admin")
        self.page.wait("document.querySelector('input[type=password]')")
        self.assert_tab_reaches_all("sign in")
        self.sign_in()
        for width in (1200, 360):
            self.page.show(width, 800, motion=False)
            for view in VIEWS:
                self.go(view)
                self.assert_tab_reaches_all(view)

    def test_a_dialog_keeps_the_focus_and_gives_it_back(self):
        self.sign_in()
        for name in self.dialogs():
            self.assertEqual(set(self.assert_tab_reaches_all(name)), set(self.measure("all")))
            for modifiers in (0, 8):
                for _ in range(6):
                    self.page.press("Tab", modifiers)
                    self.assertTrue(self.page.run("document.querySelector('dialog').contains(document.activeElement)"), name)
        self.go("tokens")
        self.page.run("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Create a token').focus()")
        self.page.press("Enter")
        self.page.wait("document.querySelector('dialog[open]')")
        self.page.press("Escape")
        self.page.wait("!document.querySelector('dialog')")
        self.assertEqual(self.measure("focused")["name"], "button Create a token")

    def test_a_screen_reader_hears_what_everything_is(self):
        self.sign_in()
        for view in VIEWS:
            self.go(view)
            names = self.page.names()
            self.assertEqual([role for role, name in names if role in USED and not name], [], view)
            roles = [role for role, _ in names]
            for landmark in ("banner", "navigation", "main", "contentinfo"):
                self.assertEqual(roles.count(landmark), 1, f"{landmark} in {view}")
            self.assertEqual(self.page.run("document.querySelectorAll('h1').length"), 1)
            self.assertIn(self.page.run("document.querySelector('h1').textContent"), self.page.run("document.title"))
            if "table" in roles:
                self.assertGreater(roles.count("columnheader"), 3)
            # As cards it still is a table to those who listen.
            self.page.show(360, 800, motion=False)
            self.assertEqual(roles.count("cell"), [role for role, _ in self.page.names()].count("cell"))
            self.page.show(1200, 800, motion=False)
        for name in self.dialogs():
            self.assertTrue(any(role == "dialog" and title for role, title in self.page.names()), name)
        self.assertEqual(self.page.run("document.querySelector('.timeline, [role=log]') === null"), True)
        self.go("space")
        self.assertEqual(self.page.run("document.querySelector('.timeline').getAttribute('aria-live')"), "polite")
        self.assertRegex(self.page.run("document.querySelector('svg').getAttribute('aria-label')"), r" in 30 days, the most on ")

    def test_nothing_moves_where_one_asked_for_no_motion(self):
        self.sign_in(view="space")
        self.assertEqual(self.page.run("document.getAnimations().length"), 0)
        self.assertEqual(self.page.run("getComputedStyle(document.querySelector('.timeline li')).animationName"), "none")

    def test_a_token_is_made_shown_used_and_revoked(self):
        self.sign_in(view="tokens")
        self.page.click("Create a token")
        self.page.wait("document.querySelector('dialog[open]')")
        self.page.type("till <b>south</b>")
        self.page.press("Tab")
        self.page.type("shop")
        self.page.press("Enter")
        self.page.wait("document.querySelector('.secret')")
        secret = self.page.run("document.querySelector('.secret').value")
        self.assertRegex(secret, r"^ann_[A-Za-z0-9_-]{43}$")
        self.assertEqual(self.relay.ask("GET", "/v1/spaces/shop", secret)[0], 200)
        self.assertEqual(self.relay.ask("GET", "/v1/spaces", secret)[0], 403)
        self.page.click("Close")
        self.page.wait("!document.querySelector('dialog')")
        # Markup in a label is text, and the secret is nowhere any more.
        self.page.wait("document.querySelector('table').innerText.includes('till <b>south</b>')")
        self.assertNotIn(secret, self.page.run("document.documentElement.outerHTML"))
        self.page.click("Revoke till <b>south</b>")
        self.page.wait("document.querySelector('dialog[open]')")
        self.page.click("Revoke", "document.querySelector('dialog')")
        self.page.wait("!document.querySelector('dialog') && document.querySelector('table').innerText.includes('revoked')")
        self.assertEqual(self.relay.ask("GET", "/v1/spaces/shop", secret)[0], 401)
        self.go("audit")
        lines = self.text("table")
        self.assertRegex(lines, r"token 1 \(operator\)\s+created a token\s+shop\s+token \d+ \(till <b>south</b>\), write\s+done")
        self.assertRegex(lines, r"revoked a token\s+shop")
        self.assertEqual(self.page.complaints, [])

    def test_a_replica_is_retired(self):
        self.sign_in(view="space")
        self.page.click("Retire phone")
        self.page.wait("document.querySelector('dialog[open]')")
        self.assertIn("no longer holds back purges", self.text("dialog"))
        self.page.click("Cancel", "document.querySelector('dialog')")
        self.page.wait("!document.querySelector('dialog')")
        self.assertNotIn("retired", self.text("table"))
        self.page.click("Retire phone")
        self.page.click("Retire", "document.querySelector('dialog')")
        self.page.wait("!document.querySelector('dialog') && document.querySelector('table').innerText.includes('retired')")
        self.assertIn("retired", self.relay.annals("relay", "replicas", "--data", "relay-data", "--space", "shop"))
        self.assertIn("replica-retire", self.relay.annals("relay", "audit", "--data", "relay-data", "--space", "shop"))

    def test_a_replica_is_released(self):
        self.sign_in(view="space")
        self.page.click("Release till")
        self.page.wait("document.querySelector('dialog[open]')")
        self.assertIn("It belongs to token 1", self.text("dialog"))
        self.page.click("Release", "document.querySelector('dialog')")
        self.page.wait("!document.querySelector('dialog') && !document.querySelector('[aria-label=\"Release till\"]')")
        self.assertIn("replica-release", self.relay.annals("relay", "audit", "--data", "relay-data", "--space", "shop"))

    def test_pushes_appear_as_they_come_and_wait_while_paused(self):
        self.relay.space("live", self.admin)
        self.sign_in()
        self.page.run("location.hash = '#/spaces/live'")
        self.page.wait("document.querySelector('.live')")
        count = "document.querySelectorAll('.timeline li').length"
        before = self.page.run(count)
        self.relay.push("live", "till", self.admin, 10)
        self.page.wait(f"{count} === {before + 1}")
        self.assertRegex(self.text(".timeline li"), r"^till pushed 1 transaction, \d+ bytes\s+just now, position \d+$")
        self.page.click("Pause")
        self.relay.push("live", "till", self.admin, 11)
        self.relay.push("live", "till", self.admin, 12)
        self.page.wait("document.body.innerText.includes('Paused. 2 newer positions to show.')")
        self.assertEqual(self.page.run(count), before + 1)
        self.page.click("Pause")
        self.page.wait(f"{count} === {before + 3}")

    def test_a_purge_is_previewed_and_then_done(self):
        self.relay.space("old", self.admin, "behind")
        self.sign_in()
        self.page.run("location.hash = '#/spaces/old'")
        self.page.wait("document.querySelector('.live')")
        self.page.click("Preview")
        self.page.wait("document.querySelector('.preview').innerText.includes('Nothing would be dropped')")
        self.page.run("document.querySelector('input[type=number]').select()")
        self.page.type("0")
        self.page.run("document.querySelector('input[type=number]').focus()")
        self.page.run("document.getElementById('force').click()")
        self.page.click("Preview")
        self.page.wait("document.querySelector('.preview').innerText.includes('would be dropped.')")
        promised = re.search(r"(\d+) positions? \(", self.text(".preview")).group(1)
        self.assertEqual(self.relay.ask("GET", "/v1/spaces/old", self.admin)[1]["horizon"], 0)
        self.page.click("Purge…")
        self.page.wait("document.querySelector('dialog[open]')")
        self.assertIn("cannot be undone", self.text("dialog"))
        self.page.click("Purge", "document.querySelector('dialog')")
        self.page.wait("document.querySelector('.preview').innerText.includes('dropped. The log begins')")
        self.assertEqual(self.relay.ask("GET", "/v1/spaces/old", self.admin)[1]["horizon"], int(promised))
        self.assertEqual(self.page.complaints, [])

    def test_who_administers_one_space_sees_that_one(self):
        token = self.relay.token("--scope", "admin", "--space", "shop", "--label", "shop only")
        self.sign_in(token)
        self.assertEqual(self.page.run("[...document.querySelectorAll('.spaces h2')].map((one) => one.textContent)"), ["shop"])
        self.go("tokens")
        self.assertNotIn("operator", self.text("table"))
        self.page.click("Create a token")
        self.page.wait("document.querySelector('dialog[open]')")
        self.assertEqual(self.page.run("[...document.querySelectorAll('dialog input')].map((one) => [one.value, one.readOnly])"),
                         [["", False], ["shop", True]])

    def test_what_is_refused_is_told_in_plain_words(self):
        self.page.open(f"{self.relay.url}/admin")
        self.page.wait("document.querySelector('input[type=password]')")
        for given, told in (("ann_wrong", "The relay does not know this access token"), (self.relay.token("--scope", "write"), "This token does not permit that"),
                            ("with space", "That is not a token")):
            self.page.run("document.querySelector('input').value = ''")
            self.page.type(given)
            self.page.press("Enter")
            self.page.wait(f"document.querySelector('[role=alert].failure').innerText.includes('{told}')")
            self.assertEqual(self.page.run("sessionStorage.length"), 0)

    def test_what_the_relay_cannot_do_is_told_in_plain_words(self):
        self.sign_in()
        for status, told in ((503, "The relay cannot answer now"), (429, "The relay cannot answer now"), (507, "storage is full"),
                             (403, "This token does not permit that"), (500, "The relay had an internal error")):
            self.page.run(f"""window.fetch = async () => new Response('{{"title": "The relay had an internal error", "hint": "See its log"}}',
                {{ status: {status}, headers: {{ 'Content-Type': 'application/problem+json' }} }})""")
            self.page.click("Tokens" if self.page.run("location.hash") == "#/audit" else "Audit log")
            self.page.wait(f"document.getElementById('notice').innerText.includes('{told}')")
            self.assertEqual(self.measure("faint"), [])
        self.assertIn("See its log.", self.text("#notice"))

    def test_a_token_that_ends_meanwhile_leads_back_to_signing_in(self):
        token = self.relay.token("--scope", "admin", "--label", "short")
        self.sign_in(token, "tokens")
        self.page.click("Revoke short")
        self.page.wait("document.querySelector('dialog[open]')")
        self.assertIn("you will be signed out", self.text("dialog"))
        self.page.click("Revoke", "document.querySelector('dialog')")
        self.page.wait("document.querySelector('input[type=password]') && !document.querySelector('dialog')")
        self.assertIn("The access token was revoked", self.text("[role=alert].failure"))

    def test_signing_out_forgets_the_token(self):
        self.sign_in()
        self.page.click("Sign out")
        self.page.wait("document.querySelector('input[type=password]')")
        self.assertEqual(self.page.run("sessionStorage.length"), 0)
        self.page.send("Page.reload")
        self.page.wait("document.querySelector('input[type=password]')")


class OtherRelays(unittest.TestCase):
    def setUp(self):
        self.chromium = Chromium()
        self.addCleanup(self.chromium.close)
        self.page = self.chromium.page()
        self.addCleanup(self.page.close)

    def test_an_open_relay_asks_for_no_token_and_an_empty_one_says_so(self):
        relay = Relay("--no-auth")
        self.addCleanup(relay.close)
        self.page.open(f"{relay.url}/admin")
        self.page.wait("document.body.innerText.includes('No spaces yet')")
        self.assertFalse(self.page.run("document.getElementById('leave').checkVisibility()"))
        self.assertEqual(self.page.complaints, [])

    def test_a_relay_that_is_gone_is_told_and_tried_again(self):
        relay = Relay()
        self.addCleanup(relay.close)
        admin = relay.token("--scope", "admin")
        self.page.open(f"{relay.url}/admin")
        self.page.wait("document.querySelector('input[type=password]')")
        self.page.type(admin)
        self.page.press("Enter")
        self.page.wait("document.body.innerText.includes('No spaces yet')")
        relay.stop()
        self.page.click("Audit log")
        self.page.wait("document.getElementById('notice').innerText.includes('The relay cannot be reached')")
        self.assertIn("Try again", self.page.run("document.getElementById('notice').innerText"))
        self.page.run("""window.said = 0; new MutationObserver(() => { window.said += 1; })
            .observe(document.getElementById('notice'), { childList: true, subtree: true })""")
        self.page.run("window.dispatchEvent(new Event('online'))")
        self.page.wait("document.querySelector('.view:not([aria-busy])')")
        self.assertEqual(self.page.run("window.said"), 0)
        relay.start()
        self.page.wait("document.querySelector('table') && !document.getElementById('notice').innerText")
        self.assertEqual(self.page.run("document.querySelector('h1').textContent"), "Audit log")


if __name__ == "__main__":
    unittest.main()
