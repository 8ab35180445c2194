"""A browser: the chat page as it is shipped, and a page of another origin. What was spent is asked
of the practice model and of the store."""
import functools
import http.server
import threading

import pytest

from harness import MOUNT, ROOT, Server, limit, until

SLOW = {"chunks": 600, "gap_ms": 100}


class Page(Server):
    """lighttpd with the chat page beside pennygate."""

    def configuration(self, stream):
        for name in ("chat.html", "chat.css", "chat.js"):
            (self.directory / name).write_bytes((ROOT / "platform/examples" / name).read_bytes())
            (self.directory / name).chmod(0o644)
        return super().configuration(stream) + '''
mimetype.assign = (".html" => "text/html", ".css" => "text/css", ".js" => "text/javascript")
server.modules += ("mod_setenv")
setenv.set-response-header = ("Content-Security-Policy" => "default-src 'self'")
'''

    def show(self, browser):
        browser.get(f"http://127.0.0.1:{self.port}/chat.html")
        return self


def ask(browser, text="Why is the sea salt?"):
    browser.find_element("id", "question").send_keys(text)
    browser.find_element("id", "send").click()


def said(browser):
    """The last answer as it stands on the page."""
    boxes = browser.find_elements("css selector", ".assistant span")
    return boxes[-1].text if boxes else ""


def status(browser):
    return browser.find_element("id", "status").text


# ---- the chat page ----

def test_an_answer_grows_before_the_readers_eyes(site, browser, model):
    model.set(chunks=12, gap_ms=150)
    Page(site(), "spawned").show(browser)
    ask(browser)
    seen = set()

    def ended():
        seen.add(said(browser))
        return said(browser).endswith("gathered.")

    until(ended, 15, "the whole answer")
    assert len(seen - {""}) >= 4, f"it came in {len(seen)} pieces"
    assert status(browser) == "" and model.count == 1
    ask(browser, "And the lakes?")
    until(lambda: model.count == 2 and len(browser.find_elements("css selector", ".assistant")) == 2, 10, "a second one")
    assert [one["role"] for one in model.last["messages"]] == ["user", "assistant", "user"]


def test_f36_the_stop_button_ends_the_spending(site, browser, model):
    model.set(**SLOW)
    server = Page(site(), "spawned").show(browser)
    ask(browser)
    until(lambda: said(browser), 10, "the first words")
    browser.find_element("id", "stop").click()
    until(lambda: status(browser) == "Stopped.", 5, "the page to say so")
    until(lambda: model.stats()["aborted"] == 1, 7, "the end of the call")
    until(lambda: "code=gone" in server.log(), 3, "the line of the log")
    assert said(browser), "what had come stays"


@pytest.mark.parametrize("first", [True, False], ids=["in the middle", "before the first token"])
def test_f36_closing_the_tab_ends_the_spending(site, browser, model, first):
    model.set(**(SLOW if first else {"hang": True}))
    server = Page(site(), "spawned")
    before = browser.current_window_handle
    browser.switch_to.new_window("tab")
    server.show(browser)
    ask(browser)
    until(lambda: said(browser) if first else model.stats()["open"], 10, "the call")
    browser.close()
    browser.switch_to.window(before)
    until(lambda: model.stats()["aborted"] == 1, 7, "the end of the call")
    until(lambda: "code=gone" in server.log(), 3, "the line of the log")


def test_a_refusal_is_told_in_words(site, browser, model):
    Page(site(limits={"visitor-day": limit("address", "calls", "day", 0)}), "spawned").show(browser)
    ask(browser)
    until(lambda: "in " in status(browser) and "hour" in status(browser), 5, "the page to say so")
    assert browser.find_element("id", "question").get_attribute("value") == "Why is the sea salt?"
    assert model.count == 0


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
