"""A page with the widget in it, behind lighttpd with a strict policy, and what a person sees of
it."""
import html
import json

from harness import MOUNT, ROOT, Server, until

AXE = ROOT / "build/sdk/node_modules/axe-core/axe.min.js"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " \
    "require-trusted-types-for 'script'; trusted-types 'none'"
FALLBACK = "Please write to the librarian."

# What goes wrong in a page is noted before anything else runs.
SPY = """
window.seen = [];
addEventListener('securitypolicyviolation', (e) => seen.push('policy: ' + e.violatedDirective + ' ' + e.blockedURI));
addEventListener('error', (e) => seen.push('error: ' + (e.message || e.target.src)), true);
addEventListener('unhandledrejection', (e) => seen.push('rejection: ' + e.reason));
"""


def attributes(given):
    return "".join(f' data-{name.replace("_", "-")}="{html.escape(value)}"' for name, value in given.items())


def document(lang="en", direction="ltr", body=None, head="", **data):
    """A page of a site that has the widget."""
    data = {"target": "#ask", **data}
    body = body or f'<div id="ask"><p>{FALLBACK}</p></div>'
    return f'''<!DOCTYPE html>
<html lang="{lang}" dir="{direction}">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>A library</title><script src="/spy.js"></script>{head}</head>
<body><main><h1>The library</h1>{body}
<script src="{MOUNT}/widget.js"{attributes(data)} defer></script></main></body>
</html>'''


class WidgetPage(Server):
    """lighttpd with such pages beside pennygate."""

    policy = POLICY
    pages = 0

    def put(self, name, text):
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)

    def put_page(self, text):
        """Each has a name of its own: lighttpd looks only once a second whether a file is another."""
        self.pages += 1
        self.put(f"page{self.pages}.html", text)
        return f"page{self.pages}.html"

    def configuration(self, stream):
        self.put("spy.js", SPY)
        return super().configuration(stream) + f'''
mimetype.assign = (".html" => "text/html; charset=utf-8", ".css" => "text/css", ".js" => "text/javascript")
server.modules += ("mod_setenv")
setenv.set-response-header = ("Content-Security-Policy" => "{self.policy}")
'''


class Widget:
    """The widget in the browser's page, as a person meets it."""

    def __init__(self, browser, server, path=None, text=None, ready=True, host="#ask", **page):
        self.browser, self.server, self.host_css = browser, server, host
        path = path or "/" + server.put_page(text or document(**page))
        browser.get_log("browser")  # what earlier pages have left
        browser.get(f"http://127.0.0.1:{server.port}{path}")
        if ready:
            until(lambda: self.box.is_displayed(), 15, "the widget")

    @property
    def root(self):
        return self.browser.find_element("css selector", self.host_css).shadow_root

    def one(self, css):
        return self.root.find_element("css selector", css)

    def all(self, css):
        return self.root.find_elements("css selector", css)

    @property
    def box(self):
        return self.one("textarea")

    @property
    def send(self):
        return self.one(".send")

    @property
    def stop(self):
        return self.one(".row button[type=button]")

    @property
    def retry(self):
        return self.one(".box > button")

    @property
    def note(self):
        return self.one("[role=status]").text

    @property
    def wait(self):
        return self.one("[role=timer]").text

    @property
    def count(self):
        return self.one("#count").text

    @property
    def left(self):
        return self.one("#left").text

    @property
    def fallback(self):
        """Whether the site's own text is to be seen."""
        return self.browser.execute_script(
            "return document.querySelector(arguments[0] + ' p').getClientRects().length > 0", self.host_css)

    @property
    def answers(self):
        return self.all(".said:not(.you)")

    @property
    def answer(self):
        """The last answer's text, without who said it."""
        found = self.answers
        return found[-1].text.partition("\n")[2] if found else ""

    @property
    def busy(self):
        return self.stop.is_displayed()

    def focused(self, element):
        return self.browser.execute_script("return arguments[0].getRootNode().activeElement === arguments[0]", element)

    def ask(self, text="Why is the sea salt?"):
        self.box.send_keys(text)
        self.send.click()

    def ended(self, seconds=15):
        """Waits for the end of what was asked; the last answer."""
        until(lambda: not self.busy, seconds, "the end of the answer")
        return self.answer

    def faults(self):
        """What the page, or the browser's console, has to complain of."""
        noted = self.browser.execute_script("return window.seen || ['the spy did not run']")
        console = [one["message"] for one in self.browser.get_log("browser") if one["level"] == "SEVERE"]
        return noted + [text for text in console if "Failed to load resource" not in text]

    def axe(self, **options):
        return run_axe(self.browser, **options)


def run_axe(browser, **options):
    """What axe finds in the page that is shown: [(rule, elements)]."""
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    found = browser.execute_async_script(
        "const [options, done] = arguments; axe.run(document, options).then(done, (e) => done(String(e)))", options)
    assert isinstance(found, dict), found
    assert found["passes"], "it has looked at nothing"
    # A contrast that it cannot tell is one to look at, but not that of what is scrolled away.
    unsure = [one for one in found["incomplete"] if one["id"] == "color-contrast" and
              not all("obscured" in node["failureSummary"] for node in one["nodes"])]
    return [(one["id"], [node["html"] + " " + node["failureSummary"] for node in one["nodes"]])
            for one in found["violations"] + unsure]


def strings(**words):
    return json.dumps(words, ensure_ascii=False)
