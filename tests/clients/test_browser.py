"""A browser: the example page as it is shipped, the program's own, and a page of another origin. What
was spent is asked of the practice model and of the store."""
import functools
import http.server
import threading

import pytest

from harness import MOUNT, ROOT, limit, until
from widget import AXE, Widget, WidgetPage

SLOW = {"chunks": 600, "gap_ms": 100}


class Example(WidgetPage):
    """lighttpd with the example page beside pennygate."""

    policy = "default-src 'self'"

    def configuration(self, stream):
        for name in ("chat.html", "chat.css"):
            self.put(name, (ROOT / "platform/examples" / name).read_text(encoding="utf-8"))
        return super().configuration(stream)


# ---- the example page, and the program's own ----

@pytest.fixture(params=["example", "own"])
def shown(request, site, browser):
    """The widget in one of them."""
    if request.param == "example":
        return Widget(browser, Example(site(), "spawned"), path="/chat.html")
    return Widget(browser, site().start(), path=MOUNT + "/", host="[data-pennygate]")


def test_an_answer_is_on_the_page(shown, model):
    model.set(chunks=12, gap_ms=50)
    assert not shown.fallback
    shown.ask()
    assert shown.ended().endswith("gathered.") and model.count == 1
    shown.ask("And the lakes?")
    until(lambda: len(shown.answers) == 2, 10, "a second one")
    shown.ended()
    assert [one["role"] for one in model.last["messages"]] == ["user", "assistant", "user"]


def test_the_page_keeps_to_its_policy(shown, browser, model):
    model.set(gap_ms=0)
    shown.ask()
    shown.ended()
    console = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert [text for text in console if "favicon.ico" not in text] == []


def test_the_page_is_light(shown, browser):
    """The page, its style if it has one, the widget, and one question how things stand."""
    names = browser.execute_script(
        "return performance.getEntriesByType('resource').map(({ name }) => name.replace(/.*[/]/, ''))")
    names = [name for name in names if name != "favicon.ico"]  # asked for by the browser, once
    assert sorted(names) == (["chat.css"] if "chat" in browser.current_url else []) + ["status", "widget.js"]
    sent = browser.execute_script("return performance.getEntries().reduce((sum, one) => sum + (one.transferSize || 0), 0)")
    assert sent < 16_000, "in bytes"


def test_title_and_box_stand_together(shown, browser):
    """However wide the window is."""
    if "chat" in browser.current_url:
        title = shown.one("h2").rect
    else:
        title = browser.find_element("css selector", "h1").rect
    box, label = shown.one(".box").rect, shown.one("label").rect
    assert abs(title["x"] - label["x"]) < 1 and box["y"] < title["y"] < label["y"]


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: tests/run-all browser does it")
def test_axe_finds_nothing(shown, browser):
    browser.get_log("browser")
    assert shown.axe() == []


def test_without_javascript_the_own_page_says_so(site, browser):
    server = site().start()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(f"http://127.0.0.1:{server.port}{MOUNT}/")
        assert "needs JavaScript" in browser.find_element("css selector", "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_paused_site_shows_the_pages_own_text(site, browser, model):
    server = Example(site(), "spawned")
    server.site.run("pause")
    widget = Widget(browser, server, path="/chat.html", ready=False)
    until(lambda: "paused" in widget.note, 10, "the reason")
    assert widget.fallback and model.count == 0


@pytest.mark.parametrize("first", [True, False], ids=["in the middle", "before the first token"])
def test_f36_closing_the_tab_ends_the_spending(site, browser, model, first):
    model.set(**(SLOW if first else {"hang": True}))
    server = Example(site(), "spawned")
    before = browser.current_window_handle
    browser.switch_to.new_window("tab")
    widget = Widget(browser, server, path="/chat.html")
    widget.ask()
    until(lambda: widget.answer if first else model.stats()["open"], 10, "the call")
    browser.close()
    browser.switch_to.window(before)
    until(lambda: model.stats()["aborted"] == 1, 7, "the end of the call")
    until(lambda: "code=gone" in server.log(), 3, "the line of the log")


# ---- a page of another origin ----

@pytest.fixture
def elsewhere(tmp_path):
    """The port of a web server with an empty page, of another site for the browser if it is asked
    for as localhost."""
    (tmp_path / "index.html").write_text("<!DOCTYPE html><title>elsewhere</title>", encoding="ascii")
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


FETCH = """
const [url, body, done] = arguments;
fetch(url, {method: 'POST', credentials: 'include', body: JSON.stringify(body),
            headers: {'Content-Type': 'application/json'}})
    .then(async (r) => done({status: r.status, text: await r.text(), left: r.headers.get('X-RateLimit-Remaining')}))
    .catch((error) => done({error: String(error)}));
"""
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


def fetch(browser, server, body=None):
    return browser.execute_async_script(FETCH, f"http://127.0.0.1:{server.port}{MOUNT}/v1/chat/completions", body or HELLO)


def test_f52_a_page_of_another_origin_is_refused(site, browser, model, elsewhere):
    server = site().start()
    browser.get(f"http://localhost:{elsewhere}/")
    assert "error" in fetch(browser, server)
    assert model.count == 0 and server.site.day()["admitted"] == 0
    until(lambda: "code=forbidden_origin" in server.log(), 5, "the line")


def test_f52_without_a_preflight_neither(site, browser, model, elsewhere):
    """A form's content type is sent without asking first: it must be refused by the gateway."""
    server = site().start()
    browser.get(f"http://localhost:{elsewhere}/")
    script = FETCH.replace("application/json", "text/plain")
    said = browser.execute_async_script(script, f"http://127.0.0.1:{server.port}{MOUNT}/v1/chat/completions", HELLO)
    assert "error" in said and model.count == 0
    until(lambda: "code=forbidden_origin" in server.log(), 5, "the line")


def test_f52_a_listed_page_is_served(site, browser, model, elsewhere):
    origin = f"http://localhost:{elsewhere}"
    server = site(options={"allowed-origins": [origin], "cookie-cross-site": "yes"},
                  limits={"visitor-day": limit("address", "calls", "day", 5)}).start()
    browser.get(origin + "/")
    said = fetch(browser, server)
    assert said["status"] == 200 and "The sea is salt" in said["text"]
    assert said["left"] == "4", "its script may read the rate headers"
    said = fetch(browser, server, {**HELLO, "stream": True})
    assert said["text"].rstrip().endswith("[DONE]") and model.count == 2


def test_a_listed_page_of_another_site_may_send_the_cookie(site, browser, model, elsewhere):
    """With it a visitor is one of its own: the first call is that of all who show none."""
    origin = f"http://localhost:{elsewhere}"
    server = site(options={"allowed-origins": [origin], "cookie-cross-site": "yes"},
                  limits={"mine": limit("visitor", "calls", "day", 1)}).start()
    browser.get(origin + "/")
    codes = [fetch(browser, server)["status"] for _ in range(3)]
    assert codes == [200, 200, 429], "the second came with the cookie of the first, and so did the third"
    assert model.count == 2


def test_a_listed_page_cannot_read_what_is_for_the_owner(site, browser, elsewhere):
    """One of the same site for the browser, which has the owner's password and would send it."""
    origin = f"http://127.0.0.1:{elsewhere}"
    server = site(options={"allowed-origins": [origin], "cookie-cross-site": "yes"}).start()
    place = f"127.0.0.1:{server.port}{MOUNT}"
    word = server.site.run("dashboard-password").strip()
    browser.get(f"http://owner:{word}@{place}/dashboard")
    assert browser.title == "Pennygate"
    browser.get(f"http://{place}/")
    script = """
        const [url, done] = arguments;
        fetch(url, {credentials: 'include'}).then((r) => done(r.status), (error) => done(String(error)));"""
    assert browser.execute_async_script(script, f"http://{place}/dashboard.json") == 200, "the password is known"
    browser.get(origin + "/")
    assert browser.execute_async_script(script, f"http://{place}/status") == 200, "it may ask"
    for path in ("/dashboard", "/dashboard.json", "/metrics"):
        assert "TypeError" in str(browser.execute_async_script(script, f"http://{place}{path}")), path


def test_a_listed_page_of_another_site_has_the_widget(site, browser, model, elsewhere, tmp_path):
    """The script comes from there, and asks there, with its cookie."""
    origin = f"http://localhost:{elsewhere}"
    server = site(options={"allowed-origins": [origin], "cookie-cross-site": "yes"},
                  limits={"mine": limit("visitor", "calls", "day", 1)}).start()
    script = f"http://127.0.0.1:{server.port}{MOUNT}/widget.js"
    (tmp_path / "index.html").write_text(
        f'<!DOCTYPE html><title>elsewhere</title><div id="ask"><p>-</p></div><script src="{script}" '
        'data-target="#ask" data-cookies defer></script>', encoding="ascii")
    browser.get(origin + "/")
    widget = Widget.__new__(Widget)
    widget.browser, widget.server, widget.host_css = browser, server, "#ask"
    until(lambda: widget.box.is_displayed(), 15, "the widget")
    for n in (1, 2):
        widget.ask()
        until(lambda n=n: len(widget.answers) == n and not widget.busy, 10, "an answer")
    until(lambda: "allowed to you" in widget.note, 10, "the refusal: the second came with the cookie of the first")
    assert model.count == 2
