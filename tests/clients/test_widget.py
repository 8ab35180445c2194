"""The widget, in Chromium, in a page of a site with a strict policy. What was spent is asked of the
practice model and of the store."""
import json
import re

import pytest
from selenium.webdriver import ActionChains, Keys

from harness import MOUNT, ROOT, limit, until
from standin import STATUS, StandIn, event
from widget import AXE, FALLBACK, Widget, WidgetPage, document, strings

SLOW = {"chunks": 600, "gap_ms": 100}
OFFLINE = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}


@pytest.fixture
def page(site):
    """A function that starts a site and returns its server."""
    def start(**options):
        return WidgetPage(site(**options), "spawned")
    return start


@pytest.fixture
def show(page, browser):
    """A function that shows a page with the widget; nothing in it may break the policy or fail."""
    shown = []

    def open_page(server=None, **options):
        shown.append(Widget(browser, server or page(), **options))
        return shown[-1]

    yield open_page
    if shown:
        assert shown[-1].faults() == []


@pytest.fixture
def standin(browser):
    made = StandIn()
    yield made
    made.stop()


# ---- an answer ----

def test_an_answer_grows_before_the_readers_eyes(show, model):
    model.set(chunks=12, gap_ms=150)
    widget = show()
    assert widget.note == "" and not widget.fallback
    widget.ask()
    seen = set()

    def ended():
        seen.add(widget.answer)
        return widget.answer.endswith("gathered.")

    until(ended, 20, "the whole answer")
    assert len(seen - {""}) >= 4, f"it came in {len(seen)} pieces"
    until(lambda: not widget.busy, 5, "the end")
    assert widget.note == "" and model.count == 1 and widget.box.get_attribute("value") == ""


def test_what_was_said_goes_along(show, model):
    widget = show()
    widget.ask("Why is the sea salt?")
    widget.ended()
    widget.ask("And the lakes?")
    until(lambda: model.count == 2 and len(widget.answers) == 2, 10, "a second answer")
    widget.ended()
    assert [one["role"] for one in model.last["messages"]] == ["user", "assistant", "user"]


FORMS = {
    "as it is": lambda text: text,
    "with carriage returns": lambda text: text.replace("\n", "\r\n"),
    "without blanks": lambda text: text.replace("data: ", "data:"),
    "with comments": lambda text: ":\n\n" + text.replace("data", ": {still here}\nevent: x\nid: 1\ndata"),
    "with chunks of nothing": lambda text: 'data: {"choices":[]}\n\ndata: {}\n\n' + text +
                              'data: {"choices":[{"delta":{}}],"usage":{}}\n\n',
}


@pytest.mark.parametrize("split", [5, None])
@pytest.mark.parametrize("form", FORMS)
def test_a_stream_in_any_form(show, standin, form, split):
    standin.says(FORMS[form](event("Salt 🐟") + event(" é漢.", "stop")) + "data: [DONE]\n\n", split)
    widget = show(standin, path="/page.html")
    widget.ask()
    until(lambda: widget.answer == "Salt 🐟 é漢." and not widget.busy, 10, "the answer")
    assert widget.note == ""


BROKEN = {
    "no end": event("Salt"),
    "no JSON": event("Salt") + "data: {oops\n\n",
    "another type": event("Salt") + "data: 7\n\ndata: null\n\n",
}


NO_WORDS = "The model cannot be asked at the moment."


def chunk(delta, **more):
    return "data: " + json.dumps({"choices": [{"delta": delta, **more}]}) + "\n\n"


def fault(error):
    return "data: " + json.dumps({"error": error}) + "\n\n"


# Events after the word "Salt", and what is told then.
ODD = {
    "an end that is no word": (chunk({}, finish_reason="constructor"), ""),
    "an end that is the prototype": (chunk({}, finish_reason="__proto__"), ""),
    "an end that is a thing": (chunk({}, finish_reason={"length": 1}), ""),
    "numbers": (chunk({"content": 5}), ""),
    "things": (chunk({"content": {"a": 1}}) + chunk({"content": ["a"]}) + chunk({"content": True}), ""),
    "no choices": ('data: {"choices":7}\n\ndata: {"choices":null}\n\ndata: {"choices":[null]}\n\n', ""),
    "a prototype": ('data: {"__proto__":{"polluted":1},"choices":[{"__proto__":{"polluted":1}}]}\n\n', ""),
    "an error that is text": (fault("<b>no</b>"), NO_WORDS),
    "a message that is a thing": (fault({"message": {"toString": 1}, "code": {"toString": 1}}), NO_WORDS),
    "a message that is a list": (fault({"message": ["no"], "code": ["title"]}), NO_WORDS),
    "a message without end": (fault({"message": "no" * 5000, "code": "x"}), "no" * 250),
    "a message turned around": (fault({"message": "no\u202e more", "code": "x"}), "no more"),
    "the code of a button": (fault({"message": "No more.", "code": "title"}), "No more."),
    "the code of another": (fault({"message": "No more.", "code": "send"}), "No more."),
    "the code of the language": (fault({"message": "No more.", "code": "__proto__"}), "No more."),
    "markup": (fault({"message": "<img src=x onerror=seen.push(1)>", "code": "x"}), "<img src=x onerror=seen.push(1)>"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_makes_no_sense_is_passed_over(show, browser, standin, name):
    events, words = ODD[name]
    standin.says(event("Salt") + events + event(" water") + "data: [DONE]\n\n")
    widget = show(standin, path="/page.html")
    widget.ask()
    widget.ended()
    assert widget.note == words
    assert widget.answer == ("Salt" if words else "Salt water")
    assert browser.execute_script("return ({}).polluted") is None


@pytest.mark.parametrize("text", ["", "  ", "\n\n \t\n"])
def test_a_blank_answer_is_none(show, standin, text):
    standin.says(event(text) + event(text, "stop") + "data: [DONE]\n\n")
    widget = show(standin, path="/page.html")
    widget.ask()
    until(lambda: "no answer" in widget.note and not widget.busy, 10, "the reason")
    assert not widget.all(".said") and widget.box.get_attribute("value") == "Why is the sea salt?"


@pytest.mark.parametrize("data", ["data: null\n\n", "data: {oops\n\n", "<html>no stream", ""])
def test_nonsense_from_the_beginning_is_no_dead_network(show, standin, data):
    standin.says(data)
    widget = show(standin, path="/page.html")
    widget.ask()
    until(lambda: widget.note == "The answer broke off." and not widget.busy, 10, "the reason")
    assert not widget.all(".said") and widget.fallback and widget.send.is_enabled()
    assert widget.box.get_attribute("value") == "Why is the sea salt?"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream_is_told_and_left(show, standin, name):
    """What is not read on must not be paid for: the connection is closed."""
    standin.says(BROKEN[name], holds=name != "no end")
    widget = show(standin, path="/page.html")
    widget.ask()
    until(lambda: widget.note == "The answer broke off.", 10, "the reason")
    assert widget.answer == "Salt" and not widget.busy
    until(lambda: standin.left == standin.holds, 10, "the end of the call")


def test_trouble_in_the_middle_is_told_in_its_words(show, standin):
    standin.says(event("Salt") + 'data: {"error":{"code":"upstream_error","message":"It has failed."}}\n\n', holds=True)
    widget = show(standin, path="/page.html")
    widget.ask()
    until(lambda: widget.note == "It has failed.", 10, "the reason")
    assert widget.answer == "Salt" and not widget.busy and widget.fallback
    until(lambda: standin.left == 1, 10, "the end of the call")


def test_the_reader_stays_where_the_reader_is(show, browser, standin):
    """At the end as it grows, unless one has scrolled back."""
    standin.says(event("line\n\n" * 100) + "data: [DONE]\n\n")
    widget = show(standin, path="/page.html")
    widget.ask()
    widget.ended()
    where = "const talk = arguments[0]; return talk.scrollHeight - talk.scrollTop - talk.clientHeight"
    talk = widget.one(".talk")
    assert abs(browser.execute_script(where, talk)) < 2
    standin.says(event("more\n\n" * 100), holds=True)
    widget.ask()
    until(lambda: len(widget.answers) == 2, 10, "the second one")
    browser.execute_script("arguments[0].scrollTop = 100", talk)
    widget.stop.click()
    widget.ended()
    assert browser.execute_script("return arguments[0].scrollTop", talk) == 100


@pytest.mark.parametrize("finish, words", [("length", "greatest length"), ("content_filter", "filter")])
def test_an_end_before_its_time_is_told(show, model, finish, words):
    model.set(finish=finish, gap_ms=0)
    widget = show()
    widget.ask()
    assert "salt" in widget.ended() and words in widget.note


def test_an_empty_answer_is_told_and_the_question_kept(show, model):
    model.set(text="", finish="length")
    widget = show()
    widget.ask("Think hard")
    widget.ended()
    assert "greatest length" in widget.note and "no answer" in widget.note
    assert widget.box.get_attribute("value") == "Think hard" and not widget.answers


# ---- stop ----

@pytest.mark.parametrize("how", ["button", "escape", "keyboard alone"])
def test_to_stop_ends_the_spending(show, browser, model, how):
    model.set(**SLOW)
    widget = show()
    widget.ask()
    until(lambda: widget.answer, 10, "the first words")
    if how == "button":
        widget.stop.click()
    elif how == "escape":
        ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    else:
        ActionChains(browser).send_keys(Keys.TAB).perform()
        assert widget.focused(widget.stop), "the next thing behind the box"
        ActionChains(browser).send_keys(Keys.ENTER).perform()
    until(lambda: widget.note == "Stopped.", 5, "the page to say so")
    until(lambda: model.stats()["aborted"] == 1, 10, "the end of the call")
    until(lambda: "code=gone" in widget.server.log(), 5, "the line of the log")
    assert widget.answer, "what had come stays"
    assert widget.focused(widget.box), "the keyboard is where one goes on"


def test_to_stop_before_the_first_word(show, model):
    """The call is ended too, and what was not answered can be asked again."""
    model.set(hang=True)
    widget = show()
    widget.ask()
    until(lambda: model.stats()["open"] == 1, 10, "the call")
    widget.box.send_keys("And the lakes?")
    widget.stop.click()
    until(lambda: widget.note == "Stopped.", 5, "the page to say so")
    until(lambda: model.stats()["aborted"] == 1, 10, "the end of the call")
    assert widget.box.get_attribute("value") == "Why is the sea salt?\nAnd the lakes?", "what one has begun stays"
    assert not widget.all(".said")
    day = widget.server.site.settled()
    assert (day["admitted"], day["unknown"]) == (1, 1) and model.count == 1
    assert widget.send.is_enabled() and widget.focused(widget.box)


def test_to_leave_the_page_ends_the_spending(show, browser, model):
    model.set(**SLOW)
    widget = show()
    widget.ask()
    until(lambda: widget.answer, 10, "the first words")
    browser.get(f"http://127.0.0.1:{widget.server.port}/spy.js")
    until(lambda: model.stats()["aborted"] == 1, 10, "the end of the call")
    browser.back()
    until(lambda: widget.box.is_displayed(), 10, "the widget again")


def test_to_take_the_widget_away_ends_the_spending(show, browser, model):
    """As a page does that shows another of its views."""
    model.set(**SLOW)
    widget = show()
    widget.ask()
    until(lambda: widget.answer, 10, "the first words")
    browser.execute_script("document.querySelector('#ask').remove()")
    until(lambda: model.stats()["aborted"] == 1, 10, "the end of the call")


def test_to_take_it_away_before_the_first_word(show, browser, standin):
    standin.says("", holds=True)
    widget = show(standin, path="/page.html")
    widget.ask()
    until(lambda: standin.bodies, 10, "the call")
    browser.execute_script("document.querySelector('#ask').remove()")
    until(lambda: standin.left == 1, 10, "the end of the call")


def test_what_was_taken_away_looks_no_more(show, browser, standin):
    standin.status = {**STATUS, "available": False, "code": "paused", "message": "It is paused."}
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: "paused" in widget.note, 10, "the reason")
    browser.execute_script("""
        const clear = window.clearInterval;
        window.cleared = 0;
        window.clearInterval = (id) => { cleared++; clear(id); };
        document.querySelector('#ask').remove();""")
    until(lambda: browser.execute_script("return cleared") == 1, 10, "the end of its clock")
    assert browser.execute_script("""
        let asked = 0;
        window.fetch = async () => { asked++; };
        dispatchEvent(new Event('online'));
        return asked;""") == 0


def test_what_was_moved_goes_on(show, browser, model):
    model.set(chunks=12, gap_ms=100)
    widget = show()
    widget.ask()
    until(lambda: widget.answer, 10, "the first words")
    browser.execute_script("const host = document.querySelector('#ask'); host.remove(); document.body.append(host);")
    assert widget.ended().endswith("gathered.")


# ---- refusals ----

def test_a_refusal_is_told_with_the_time_to_wait(show, page, browser, model):
    server = page(limits={"visitor-day": limit("address", "calls", "day", 1)})
    widget = show(server)
    assert widget.left == "Questions left: 1"
    server.chat()  # in another tab
    widget.ask()
    until(lambda: "allowed to your network" in widget.note, 5, "the reason")
    first = widget.wait
    assert re.fullmatch(r"You can ask again in (\d+:)?\d\d:\d\d\.", first)
    until(lambda: widget.wait != first, 5, "the seconds to pass")
    assert widget.box.get_attribute("value") == "Why is the sea salt?", "the question is kept"
    assert not widget.send.is_enabled() and widget.retry.is_displayed() and widget.fallback
    assert model.count == 1, "nothing was spent"
    asked = looks(widget)
    widget.retry.click()
    until(lambda: looks(widget) > asked and "allowed to your network" in widget.note, 5, "the same again")
    assert model.count == 1


def looks(widget):
    """How often it has asked how things stand."""
    return widget.browser.execute_script(
        "return performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/status')).length")


def test_what_is_left_is_counted_down(show, page, model):
    model.set(gap_ms=0)
    widget = show(page(limits={"visitor-day": limit("address", "calls", "day", 2)}))
    assert widget.left == "Questions left: 2"
    widget.ask()
    widget.ended()
    assert widget.left == "Questions left: 1"
    widget.ask("And the lakes?")
    widget.ended()
    until(lambda: "network" in widget.note, 10, "it to say that no more are left")
    assert widget.wait and widget.left == "Questions left: 0" and model.count == 2


def test_what_a_limit_of_seconds_leaves_is_no_news(show, page, model):
    model.set(gap_ms=0)
    widget = show(page(limits={"visitor-burst": limit("address", "calls", "30s", 2),
                               "visitor-day": limit("address", "calls", "day", 7)}))
    assert widget.left == "Questions left: 7"
    widget.ask()
    widget.ended()
    assert widget.left == "Questions left: 6"


def test_at_its_end_one_can_ask_again(show, page, model):
    model.set(gap_ms=0)
    server = page(limits={"visitor-burst": limit("address", "calls", "8s", 1)})
    widget = show(server)
    widget.ask()
    widget.ended()
    widget.ask("And the lakes?")
    until(lambda: not widget.send.is_enabled() and widget.wait, 10, "the refusal")
    assert not widget.fallback, "for a moment only"
    assert widget.box.get_attribute("value") == "And the lakes?", "the question is kept"
    until(lambda: widget.note == "You can ask again.", 20, "the end of the wait")
    assert widget.wait == "" and widget.send.is_enabled() and not widget.retry.is_displayed()
    assert model.count == 1, "nothing is asked by itself"
    widget.send.click()
    until(lambda: model.count == 2, 10, "the second call")


@pytest.mark.parametrize("seconds, words", [
    (200, r"03:(20|1\d)"), (7500, r"2:0[45]:\d\d"), (86_400, r"(24:00|23:59):\d\d"),
    (86_400 * 2 - 5, r"47:59:\d\d"), (86_400 * 3 - 5, "3 days"), (86_400 * 30, "30 days"), (1e308, "31 days")])
def test_a_wait_of_any_length_is_told(show, standin, seconds, words):
    standin.status = {**STATUS, "available": False, "code": "site_limit", "message": "No more.", "retry_after": seconds}
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: re.fullmatch(f"You can ask again in {words}\\.", widget.wait), 10, "the time to wait")
    assert widget.note == "No more." and widget.fallback


@pytest.mark.parametrize("wait", [-5, 0, "5", "abc", [7], {"toString": 1}, True, None])
def test_a_wait_that_is_none_is_not_told(show, standin, wait):
    standin.status = {**STATUS, "available": False, "code": "site_limit", "message": "No more.", "retry_after": wait}
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: widget.note == "No more.", 10, "the reason")
    assert widget.wait == "" and widget.retry.is_displayed()


@pytest.mark.parametrize("left", [-3, 1.5, 1e308, "<b>", {"a": 1}])
def test_a_rest_that_is_none_is_not_told(show, standin, left):
    standin.status = {**STATUS, "limits": [{"window_s": 86400, "remaining": left}]}
    widget = show(standin, path="/page.html")
    assert widget.left == ""


@pytest.mark.parametrize("code", ["constructor", "__proto__", "toString", "title", "offline", "left"])
def test_a_code_is_no_word_of_the_language(show, standin, code):
    standin.status = {**STATUS, "available": False, "code": code, "message": "No more."}
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: widget.note == "No more.", 10, "the reason")


def test_it_looks_less_and_less_often(show, page, browser, model):
    """A place that is taken for long is no reason to ask each second; and nobody knows for how long."""
    server = page(limits={"visitor-at-once": limit("address", "concurrent", None, 1)})
    model.set(hang=True)
    call = server.begin(stream=True)
    until(lambda: model.stats()["open"] == 1, 10, "the call")
    widget = show(server, ready=False)
    until(lambda: "earlier answer" in widget.note, 10, "the refusal")
    until(lambda: looks(widget) >= 4, 40, "it to look again by itself")
    times = browser.execute_script("""
        return performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/status'))
            .map((one) => one.startTime)""")
    assert times[3] - times[2] >= 7000 > 1900 <= times[1] - times[0], times
    assert widget.wait == "" and not widget.fallback and widget.retry.is_displayed()
    call.close()


@pytest.mark.parametrize("code", ["paused", "meter_unavailable", "clock", "configuration", "busy", "stopping"])
def test_no_time_is_promised_that_nobody_knows(show, standin, code):
    """They carry Retry-After for programs; a person would see it run down and begin anew."""
    standin.status = {**STATUS, "available": False, "code": code, "message": f"It is {code}.", "retry_after": 60}
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: code in widget.note, 10, "the reason")
    assert widget.wait == ""


def test_it_looks_by_itself_where_nobody_knows_when(show, browser, standin):
    """Also where a time was told that is none."""
    standin.status = {**STATUS, "available": False, "code": "paused", "message": "It is paused.", "retry_after": -5}
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: "paused" in widget.note, 10, "the reason")
    browser.execute_script("""
        window.told = 0;
        new MutationObserver(() => told++).observe(arguments[0], { childList: true });""",
        widget.one("[role=status]"))
    until(lambda: looks(widget) >= 3, 20, "it to look again by itself")
    assert widget.wait == "" and browser.execute_script("return told") == 0, "the same is not read out again"
    standin.status = STATUS
    until(lambda: widget.note == "You can ask again.", 20, "it to notice")
    assert widget.box.is_displayed() and not widget.fallback and not widget.retry.is_displayed()


def test_a_page_that_nobody_sees_asks_nothing(show, browser, standin):
    """A tab that was left open must not ask all night how things stand."""
    standin.status = {**STATUS, "available": False, "code": "paused", "message": "It is paused."}
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: "paused" in widget.note, 10, "the reason")
    browser.execute_script("""
        Object.defineProperty(document, 'hidden', { value: true, configurable: true });
        window.since = performance.now();""")
    until(lambda: browser.execute_script("return performance.now() > since + 8000"), 20, "two looks' time")
    assert looks(widget) <= 2, "one more can have begun"
    browser.execute_script("delete document.hidden")
    until(lambda: looks(widget) >= 3, 20, "it to look again")


@pytest.mark.parametrize("code", ["site_limit", "upstream_paused"])
def test_a_time_that_is_known_is_told(show, standin, code):
    standin.status = {**STATUS, "available": False, "code": code, "message": f"It is {code}.", "retry_after": 60}
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: re.fullmatch(r"You can ask again in 0[01]:\d\d\.", widget.wait), 10, "the time")
    assert looks(widget) == 1


@pytest.mark.parametrize("status, words", [(500, "proper answer"), (401, "not available to this site")])
def test_trouble_of_the_model_is_told(show, model, status, words):
    model.set(status=status)
    widget = show()
    widget.ask()
    until(lambda: words in widget.note, 10, "the reason")
    assert widget.box.get_attribute("value") == "Why is the sea salt?" and widget.fallback
    assert not widget.answers
    calls = model.count
    if status == 500:
        model.set(status=200, gap_ms=0)
        widget.send.click()
        assert widget.ended().endswith("gathered.") and not widget.fallback
        assert model.count == calls + 1


@pytest.mark.parametrize("cut", ["middle", "content_length"])
def test_an_answer_that_breaks_off_is_told(show, model, cut):
    model.set(cut=cut)
    widget = show()
    widget.ask()
    widget.ended()
    assert widget.note and "salt" in widget.answer, "and what had come stays"
    assert widget.fallback and model.count == 1


def test_the_words_are_the_sites(show, page, model):
    server = page(limits={"visitor-day": limit("address", "calls", "day", 1)})
    widget = show(server, lang="de", title="Frag die Bücherei", strings=strings(
        send="Senden", left="Noch {n}", address_limit="Für heute genug.", more="Weiter in {t}."))
    assert widget.one("h2").text == "Frag die Bücherei"
    assert widget.send.text == "Senden" and widget.left == "Noch 1"
    server.chat()
    widget.ask()
    until(lambda: widget.note == "Für heute genug.", 5, "the reason")
    assert widget.wait.startswith("Weiter in ")


# ---- the site's own text ----

def test_a_paused_site_shows_its_own_text(show, page, model):
    server = page()
    server.site.run("pause")
    widget = show(server, ready=False)
    until(lambda: "paused" in widget.note, 10, "the reason")
    assert widget.fallback and widget.retry.is_displayed() and not widget.box.is_displayed()
    server.site.run("resume")
    widget.retry.click()
    until(lambda: widget.box.is_displayed(), 10, "the box")
    assert not widget.fallback and not widget.retry.is_displayed()
    assert widget.focused(widget.box), "the button that had the focus is gone"


def test_a_dead_network_shows_it_too(show, browser, model):
    widget = show()
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **OFFLINE})
    try:
        widget.ask()
        until(lambda: "cannot be reached" in widget.note, 10, "the reason")
        assert widget.fallback and widget.retry.is_displayed()
        assert widget.box.get_attribute("value") == "Why is the sea salt?" and model.count == 0
    finally:
        browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **OFFLINE})
    until(lambda: widget.note == "You can ask again.", 10, "it to notice")
    assert widget.send.is_enabled() and not widget.fallback and model.count == 0


def test_a_server_that_dies_in_an_answer(show, model):
    model.set(**SLOW)
    widget = show()
    widget.ask()
    until(lambda: widget.answer, 10, "the first words")
    widget.server.stop()
    widget.ended()
    assert widget.note and widget.answer and widget.fallback


def test_without_javascript_there_is_the_sites_text(page, browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        server = page()
        browser.get(f"http://127.0.0.1:{server.port}/{server.put_page(document())}")
        assert browser.find_element("css selector", "#ask p").is_displayed()
        assert browser.find_element("css selector", "#ask").text == FALLBACK
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_without_an_answer_of_the_server_there_is_the_sites_text(show, page, model):
    """Something else is where pennygate should be: the web server's own error is no error of ours."""
    widget = show(page(), ready=False, endpoint="/nowhere/")
    until(lambda: "at the moment" in widget.note, 10, "the reason")
    assert widget.fallback and widget.retry.is_displayed()


def test_a_gateway_that_is_not_there_yet(show, standin):
    """The web server's 502 in place of how things stand: one can try again."""
    standin.broken = True
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: "at the moment" in widget.note, 10, "the reason")
    assert widget.fallback and not widget.box.is_displayed()
    standin.broken = False
    widget.retry.click()
    until(lambda: widget.box.is_displayed(), 10, "the widget")


CAPS = STATUS["input"]
STRANGERS = {
    "a list": [], "a number": 7, "nothing": None, "text": "ok", "no JSON": float("nan"), "an empty one": {},
    "no input": {"available": True, "limits": []},
    "an empty input": {**STATUS, "input": {}},
    "input of words": {**STATUS, "input": dict.fromkeys(CAPS, "many")},
    "input of less than nothing": {**STATUS, "input": dict.fromkeys(CAPS, -1)},
    "no limits": {"available": True, "input": CAPS},
    "limits of nothing": {**STATUS, "limits": [None]},
    "limits that are no list": {**STATUS, "limits": {"length": 1}},
    "a status of its own": {**STATUS, "available": False, "status": 400},
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_in_its_place_is_a_site_that_cannot_be_asked(show, standin, name):
    """A 200 at /status that is not pennygate's."""
    standin.status = STRANGERS[name]
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: "at the moment" in widget.note, 10, "the reason")
    assert widget.fallback and widget.retry.is_displayed() and not widget.box.is_displayed()
    standin.status = STATUS
    widget.retry.click()
    until(lambda: widget.box.is_displayed(), 10, "the widget")
    assert not widget.fallback and widget.count == "0/100"


def test_until_it_knows_it_shows_the_sites_text(show, standin):
    """A server that says nothing: the text is there from the beginning, and not for ever alone."""
    standin.ready.clear()
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: widget.all(".box"), 10, "the widget")
    assert widget.fallback and not widget.box.is_displayed()
    until(lambda: "cannot be reached" in widget.note, 25, "it to have waited long enough")
    assert widget.fallback and widget.retry.is_displayed()
    standin.ready.set()
    widget.retry.click()
    until(lambda: widget.box.is_displayed(), 10, "the widget")


@pytest.mark.parametrize("text", ["{'send': 'Senden'}", '{"send": "Senden",}', "null", '{"send": 7}'])
def test_words_that_cannot_be_read_leave_the_own_ones(show, browser, text):
    widget = show(strings=text)
    assert widget.send.text == ("7" if "7" in text else "Send")
    told = [one["message"] for one in browser.get_log("browser") if one["level"] == "WARNING"]
    assert len(told) == ("7" not in text) and all("data-strings" in one for one in told), told


@pytest.mark.parametrize("target", ["#missing", "#7", "form"], ids=["none", "no selector", "no shadow"])
def test_a_place_that_cannot_be_taken_is_told(show, browser, model, target):
    """The widget is behind the script then, and the site's own text where it was."""
    model.set(gap_ms=0)
    widget = show(text=document(body=f'<form id="ask"><p>{FALLBACK}</p></form>', target=target), host="script + div")
    told = [one["message"] for one in browser.get_log("browser") if one["level"] == "WARNING"]
    assert len(told) == 1 and "data-target" in told[0] and target in told[0], told
    assert browser.find_element("css selector", "#ask p").is_displayed()
    widget.ask()
    assert widget.ended().endswith("gathered.")


def test_the_sites_text_has_lines_of_its_own(show, page, browser):
    """Also where it is plain text, in no element."""
    server = page()
    server.site.run("pause")
    widget = show(server, ready=False, body='<div id="ask">Plain <a href="/">text</a></div>')
    until(lambda: widget.retry.is_displayed(), 10, "the button")
    link, retry = browser.find_element("css selector", "#ask a"), widget.retry.rect
    assert link.rect["y"] >= retry["y"] + retry["height"]


def test_callers_without_a_key_hear_of_it(show, page, model):
    widget = show(page(options={"require": "key"}), ready=False)
    until(lambda: "sign in or hold a key" in widget.note, 10, "the reason")
    assert widget.fallback and widget.wait == "" and not widget.box.is_displayed()


# ---- hostile answers ----

HOSTILE = {
    "script": "<script>seen.push('ran')</script><img src=x onerror=\"seen.push('ran')\"><b>bold</b>",
    "javascript link": "[click](javascript:seen.push('ran')) [data](data:text/html,<script>1</script>) "
                       "[vb](vbscript:x) [rel](//evil.example/x) [tab](java\tscript:x)",
    "quotes in a link": "[x](https://a.example/\"onmouseover=\"seen.push('ran')) https://a.example/'onclick='x",
    "attributes": "[x](https://a.example/ \"t\" onclick=seen.push('ran'))",
    "bidi": "user\u202etxt.exe\u202c \u2066isolated\u2069 end",
    "templates": "{{constructor.constructor('seen.push(1)')()}} ${seen.push('ran')} &lt;script&gt;",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_stays_text(show, model, name):
    model.set(text=HOSTILE[name], gap_ms=0, chunks=7)
    widget = show()
    widget.ask()
    widget.ended()
    tags = {element.tag_name for element in widget.all(".said *")}
    assert tags <= {"strong", "p", "span", "em", "code", "a"}, tags
    for link in widget.all("a"):
        assert re.match("https?://", link.get_attribute("href"))
        assert link.get_attribute("rel") == "noopener noreferrer nofollow ugc"
        assert link.get_attribute("target") == "_blank"
        assert {one["name"] for one in widget.browser.execute_script(
            "return [...arguments[0].attributes].map(({ name }) => ({ name }))", link)} == \
            {"href", "rel", "target", "title"}
    if name == "script":
        assert widget.answer.startswith("<script>seen.push") and "<b>bold</b>" in widget.answer
    if name == "javascript link":
        assert not widget.all("a")
    if name == "bidi":
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", widget.answer)


# A link's text and its address, and how it is shown.
LINKS = {
    "words": ("the docs", "https://docs.example/a", "the docs"),
    "itself": ("https://a.example/b", "https://a.example/b", "https://a.example/b"),
    "its host": ("https://a.example", "https://a.example/b", "https://a.example"),
    "another": ("https://bank.example", "https://evil.example/", "https://bank.example (evil.example)"),
    "another without a scheme": ("bank.example/login", "https://evil.example/", "bank.example/login (evil.example)"),
    "a longer one": ("https://evil.example.org", "https://evil.example", "https://evil.example.org (evil.example)"),
    "a name in front": ("see bank.example", "https://bank.example@evil.example", "see bank.example (evil.example)"),
    "a port": ("https://a.example", "https://a.example:81/", "https://a.example (a.example:81)"),
    "none at all": ("a.example", "https://[/", None),
}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_does_not_pass_for_another(show, standin, name):
    words, address, seen = LINKS[name]
    standin.says(event(f"Go [{words}]({address}) now") + "data: [DONE]\n\n")
    widget = show(standin, path="/page.html")
    widget.ask()
    widget.ended()
    assert seen is None or [one.text for one in widget.all("a")] == [seen]
    assert widget.answer.startswith("Go ") and widget.answer.endswith(" now")


def test_an_address_with_a_name_in_front_tells_its_host(show, standin):
    standin.says(event("https://bank.example@evil.example/x and https://a.example/") + "data: [DONE]\n\n")
    widget = show(standin, path="/page.html")
    widget.ask()
    widget.ended()
    assert [one.text for one in widget.all("a")] == [
        "https://bank.example@evil.example/x (evil.example)", "https://a.example/"]


def test_what_a_person_writes_is_text_too(show, model):
    model.set(gap_ms=0)
    widget = show()
    widget.ask("<b>**x**</b> https://a.example/")
    widget.ended()
    mine = widget.one(".you p")
    assert mine.text == "<b>**x**</b> https://a.example/" and not mine.find_elements("css selector", "*")


MARKDOWN = """# A head

Some **strong** and *slanted* words, `code **as it is**`, a [link](https://a.example/b?c=d), and
https://a.example/plain. Two * three * four, snake_case_word, **not ended

- one
- two **three**
* four

3. third
4. fourth

```js
if (a < b) {
    **no** [x](https://a.example)
}
```
After it.
"""


@pytest.mark.parametrize("chunks", [1, 60])
def test_markdown_becomes_what_it_says(show, model, chunks):
    model.set(text=MARKDOWN, gap_ms=0, chunks=chunks)
    widget = show()
    widget.ask()
    widget.ended()
    said = widget.answers[-1]
    texts = {tag: [one.text for one in said.find_elements("css selector", tag)]
             for tag in ("p strong", "em", "p code", "a", "ul > li", "ol > li", "li strong", "pre")}
    assert texts == {
        "p strong": ["A head", "strong"], "em": ["slanted"], "p code": ["code **as it is**"],
        "a": ["link", "https://a.example/plain"], "ul > li": ["one", "two three", "four"],
        "ol > li": ["third", "fourth"], "li strong": ["three"],
        "pre": ["if (a < b) {\n    **no** [x](https://a.example)\n}"],
    }
    assert said.find_element("css selector", "ol").get_attribute("start") == "3"
    assert "Two * three * four, snake_case_word, **not ended" in said.text
    assert said.text.endswith("After it.") and "```" not in said.text


def test_a_huge_word_stays_in_its_box(show, browser, model):
    model.set(text="x" * 5000 + "\n\n```\n" + "y" * 3000, gap_ms=0)
    browser.set_window_size(500, 700)
    widget = show()
    widget.ask()
    widget.ended()
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.execute_script(
        "const talk = arguments[0]; return talk.scrollWidth <= talk.clientWidth", widget.one(".talk"))
    browser.set_window_size(1000, 800)


# What could be long to look through, or to paint: one of each kind, and more than is taken of it.
LONG = {
    "words": "salt river stone water " * 4500,
    "directions in one line": "\u05d0a " * 32_000,
    "directions in code": "```\n" + "\u05d0a " * 32_000,
    "unended marks": "**a *b `c " * 10_000,
    "brackets": "[" * 35_000 + "](https://a" * 5000,
    "links": "https://a.example/... " * 4500,
    "fences": "```\n" * 25_000,
    "items": "- a\n" * 25_000,
    "lines of numbers": "1\n" * 50_000,
    "spaces": "a" + " " * 50_000 + "*" + " " * 50_000 + "b",
}


@pytest.mark.parametrize("name", LONG)
def test_a_hundred_kilobytes_do_not_hold_the_page_up(show, browser, standin, name):
    text = LONG[name]
    standin.says("".join(event(text[i:i + 500]) for i in range(0, len(text), 500)), 16384, holds=True)
    widget = show(standin, path="/page.html")
    measure = browser.execute_script("""
        const begun = performance.now();
        const made = document.createElement('div');
        document.body.append(made);
        for (let i = 0; i < 50000; i++) made.append(document.createElement('p'));
        made.getBoundingClientRect();
        made.remove();
        window.longest = 0;
        let last = performance.now();
        setInterval(() => {
            const now = performance.now();
            longest = Math.max(longest, now - last);
            last = now;
        }, 10);
        return last - begun;""")  # how fast this machine is just now
    widget.ask()
    until(lambda: widget.note == "The answer broke off." and not widget.busy, 60, "the end")
    until(lambda: standin.left == 1, 10, "the end of the call")
    longest = browser.execute_script("return longest")
    assert longest < 2000 + 10 * measure, f"{longest} ms, where such a page takes {measure} ms"


@pytest.mark.parametrize("more", [0, 1])
def test_an_answer_has_a_greatest_length(show, standin, more):
    """All of it up to there is shown, and goes along."""
    standin.says(event("x" * (65_536 + more)) + "data: [DONE]\n\n")
    standin.status = {**STATUS, "input": {**STATUS["input"], "max_input_chars": 100_000}}
    widget = show(standin, path="/page.html")
    widget.ask()
    widget.ended()
    assert widget.note == ("The answer broke off." if more else "")
    assert len(shown(widget)) == 65_536
    standin.says(event("Salt") + "data: [DONE]\n\n")
    widget.ask()
    until(lambda: len(widget.answers) == 2 and not widget.busy, 10, "an answer")
    assert len(standin.bodies[1]["messages"][1]["content"]) == 65_536


def shown(widget):
    """What is written in the last answer, without the ends of lines."""
    return widget.browser.execute_script("""
        return [...arguments[0].children].slice(1).map((one) => one.textContent).join('').replaceAll('\\n', '');""",
        widget.answers[-1])


@pytest.mark.parametrize("begin, tag", [("", "p"), ("```\n", "pre")])
def test_a_long_line_is_painted_in_parts(show, browser, standin, begin, tag):
    """And nothing of it is lost, nor a character of two units torn."""
    line = "".join(f"{n} 🐟é漢 " for n in range(2000))
    text = begin + "short\n" + line
    standin.says("".join(event(text[i:i + 700]) for i in range(0, len(text), 700)) + "data: [DONE]\n\n", 4096)
    widget = show(standin, path="/page.html")
    widget.ask()
    widget.ended()
    assert shown(widget) == "short" + line
    sizes = browser.execute_script("return arguments[0].map((one) => one.textContent.length)",
                                   widget.answers[-1].find_elements("css selector", tag))
    assert len(sizes) > 4 and max(sizes) < 6000, sizes


# ---- caps and history ----

def test_f_the_counter_counts_characters_as_the_gateway_does(show, page, model):
    model.set(gap_ms=0)
    widget = show(page(request={"max-message-chars": 99}))
    assert widget.count == "0/99"
    set_text(widget, "🐟é漢" * 33)
    assert widget.count == "99/99" and widget.send.is_enabled()
    set_text(widget, "🐟é漢" * 33 + "x")
    assert widget.count == "100/99" and not widget.send.is_enabled()
    assert widget.note == "That is too long to be sent."
    assert widget.box.get_attribute("aria-invalid") == "true"
    widget.box.send_keys(Keys.ENTER)
    assert model.count == 0
    set_text(widget, "🐟é漢" * 33)
    assert widget.note == "" and widget.count == "99/99"
    widget.box.send_keys(Keys.ENTER)
    assert widget.ended().endswith("gathered.") and model.count == 1


def set_text(widget, text):
    """As pasted: the driver cannot type what is beyond the first plane."""
    widget.browser.execute_script("""
        const [box, text] = arguments;
        box.value = text;
        box.dispatchEvent(new Event('input', { bubbles: true }));""", widget.box, text)


def test_blanks_are_no_question(show, model):
    widget = show()
    widget.box.send_keys("   ")
    assert not widget.send.is_enabled()
    widget.box.send_keys(Keys.ENTER)
    assert model.count == 0 and not widget.all(".said")


@pytest.mark.parametrize("bound, most", [("max_history", 4), ("max_input_chars", 40)])
def test_no_more_is_sent_than_is_taken(show, standin, bound, most):
    standin.says(event("twelve chars") + "data: [DONE]\n\n")
    standin.status = {**STATUS, "input": {**STATUS["input"], bound: most}}
    widget = show(standin, path="/page.html")
    for n in range(4):
        widget.ask(f"a {n}")
        until(lambda n=n: len(widget.answers) == n + 1 and not widget.busy, 10, "an answer")
    sent = [[one["content"] for one in body["messages"]] for body in standin.bodies]
    kept = {"max_history": 1, "max_input_chars": 2}[bound]
    assert sent[3] == [text for n in range(3 - kept, 3) for text in (f"a {n}", "twelve chars")] + ["a 3"]
    assert sent[1] == ["a 0", "twelve chars", "a 1"]
    assert all(body["stream"] is True and set(body) == {"messages", "stream"} for body in standin.bodies)


def test_the_oldest_goes_first(show, page, model):
    """Six messages of history fit, and no more than so many characters: never an error."""
    model.set(gap_ms=0, text="a" * 40)
    widget = show(page(request={"max-history": 5, "max-input-chars": 189, "max-message-chars": 150}))
    for n in range(4):
        widget.ask(f"question {n}")
        until(lambda n=n: len(widget.answers) == n + 1 and not widget.busy, 10, "an answer")
        assert widget.note == ""
    sent = model.last["messages"]
    assert [one["content"] for one in sent if one["role"] == "user"] == ["question 1", "question 2", "question 3"]
    assert sent[0]["role"] == "user"
    widget.ask("q" * 150)
    until(lambda: len(widget.answers) == 5 and not widget.busy, 10, "an answer")
    assert widget.note == "" and len(model.last["messages"]) == 1


# ---- keyboard and screen readers ----

def test_the_keyboard_alone_is_enough(show, browser, model):
    model.set(gap_ms=0)
    widget = show()
    keys = ActionChains(browser)
    keys.send_keys(Keys.TAB).perform()
    assert widget.focused(widget.box)
    keys.send_keys("One").key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).send_keys("Two").perform()
    assert widget.box.get_attribute("value") == "One\nTwo", "that is a line's end"
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    assert widget.ended().endswith("gathered.")
    assert model.last["messages"][0]["content"] == "One\nTwo"
    assert widget.focused(widget.box), "one can go on writing"
    ActionChains(browser).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    assert widget.focused(widget.one(".talk")), "what was said can be scrolled"


def test_enter_belongs_to_an_input_method(show, browser, model):
    widget = show()
    widget.box.send_keys("nihon")
    for more in ("isComposing: true", "keyCode: 229"):
        browser.execute_script(f"""
            arguments[0].dispatchEvent(new KeyboardEvent('keydown',
                {{ key: 'Enter', bubbles: true, cancelable: true, {more} }}));""", widget.box)
    assert widget.box.get_attribute("value") == "nihon" and model.count == 0


def test_the_log_gets_an_answer_as_a_whole(show, browser, model):
    model.set(chunks=20, gap_ms=60)
    widget = show()
    browser.execute_script("""
        window.spoken = [];
        const log = arguments[0];
        new MutationObserver((changes) => {
            for (const change of changes) {
                for (const node of change.addedNodes) spoken.push(node.textContent);
            }
        }).observe(log, { childList: true, subtree: true, characterData: true });""", widget.one("[role=log]"))
    widget.ask()
    widget.ended()
    question, answer = browser.execute_script("return spoken")
    assert question.endswith("Why is the sea salt?") and answer.endswith("gathered.")
    assert widget.one("[role=log]").get_attribute("aria-live") == "polite"


needs_axe = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: tests/run-all browser does it")
LOOKS = {
    "light": {"theme": "light"}, "dark": {"theme": "dark"},
    "right to left": {"direction": "rtl", "lang": "ar", "title": "اسأل المكتبة"},
}


@needs_axe
@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(show, page, model, look):
    model.set(text=MARKDOWN, chunks=40, gap_ms=50)
    server = page(limits={"visitor-day": limit("address", "calls", "day", 1)}, request={"max-message-chars": 99})
    widget = show(server, **LOOKS[look])
    assert widget.axe() == [], "at the beginning"
    widget.box.send_keys("Why is the sea salt?")
    assert widget.send.is_enabled() and widget.axe() == [], "when one can send: what is disabled it leaves out"
    widget.send.click()
    until(lambda: widget.answer, 10, "the first words")
    assert widget.axe() == [], "while it writes"
    widget.ended()
    until(lambda: widget.wait, 10, "the refusal")
    reason = widget.note
    set_text(widget, "x" * 100)
    assert widget.count == "100/99" and widget.note == reason, "that comes first"
    assert widget.axe() == [], "when all is used"


@needs_axe
def test_axe_finds_nothing_where_it_does_not_work(show, page):
    server = page()
    server.site.run("pause")
    widget = show(server, ready=False, theme="dark")
    until(lambda: "paused" in widget.note, 10, "the reason")
    assert widget.axe() == []


@pytest.mark.parametrize("size", [(320, 640), (320, 256)], ids=["narrow", "at 400 %"])
def test_a_narrow_screen_scrolls_one_way_only(show, browser, page, model, size):
    """Also with words that are longer than ours."""
    model.set(text=MARKDOWN, gap_ms=0)
    width, height = size
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": True})
    try:
        widget = show(page(limits={"visitor-day": limit("address", "calls", "day", 40)}), strings=strings(
            send="Absenden", left="Verbleibende Fragen für heute: {n}", label="Ihre Frage an die Bücherei"))
        widget.ask()
        widget.ended()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        for button in (widget.send, widget.box):
            box = button.rect
            assert box["x"] >= 0 and box["x"] + box["width"] <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("feature, value", [("forced-colors", "active"), ("prefers-reduced-motion", "reduce")])
def test_what_a_person_prefers_is_kept(show, browser, model, feature, value):
    model.set(gap_ms=0)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": feature, "value": value}]})
    try:
        widget = show()
        widget.ask()
        widget.ended()
        if feature == "forced-colors":
            style = "return getComputedStyle(arguments[0]).borderTopStyle"
            assert browser.execute_script(style, widget.send) == "solid", "a button is seen by its edge"
        moving = browser.execute_script("return document.getAnimations().length + "
                                        "arguments[0].getRootNode().getAnimations().length", widget.box)
        assert moving == 0
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


# ---- where it stands, and what it weighs ----

def test_a_page_and_two_requests(show, browser):
    widget = show()
    loaded = browser.execute_script("""
        return performance.getEntriesByType('resource').map((one) => [one.name, one.decodedBodySize]);""")
    loaded = {name.partition(f":{widget.server.port}")[2]: size for name, size in loaded}
    loaded.pop("/favicon.ico", None)  # asked for by the browser, once
    assert set(loaded) == {"/spy.js", MOUNT + "/widget.js", MOUNT + "/status"}
    assert loaded[MOUNT + "/widget.js"] < 12_000


@pytest.mark.parametrize("body, host", [
    ("<aside data-pennygate><p>-</p></aside>", "[data-pennygate]"),
    ("<p>No place for it.</p>", "script + div"),
], ids=["marked", "none"])
def test_without_a_target_it_finds_a_place(show, model, body, host):
    model.set(gap_ms=0)
    widget = show(text=document(body=body).replace(' data-target="#ask"', ""), host=host)
    widget.ask()
    assert widget.ended().endswith("gathered.")


def test_two_in_one_page(show, browser, model):
    model.set(gap_ms=0)
    text = document(body='<div id="ask"></div><div id="other"></div>')
    script = re.search("<script src=\"[^\"]*widget.js.*?</script>", text)[0]
    widget = show(text=text.replace(script, script + script.replace("#ask", "#other")))
    for widget.host_css in ("#ask", "#other"):
        until(lambda: widget.box.is_displayed(), 10, "the widget")
        widget.ask()
        assert widget.ended().endswith("gathered.") and len(widget.answers) == 1


def test_two_without_targets_in_one_page(show, standin, browser):
    """Each takes the next place that is marked; for a third there is none but behind its script."""
    script = re.search("<script src=\"[^\"]*widget.js.*?</script>", document())[0].replace(' data-target="#ask"', "")
    body = "<aside data-pennygate id=one><p>-</p></aside><aside data-pennygate id=two><p>-</p></aside>" + 2 * script
    standin.page = document(body=body).replace(' data-target="#ask"', "")
    widget = show(standin, path="/page.html", host="#one")
    for widget.host_css in ("#one", "#two"):
        until(lambda: widget.box.is_displayed(), 10, "the widget")
    assert browser.execute_script("return [...document.querySelectorAll('script + div')].map((one) => !!one.shadowRoot)"
                                  ) == [True]


def test_words_by_code_and_words_by_name(show, standin):
    """What the list has is a name; anything else is a code."""
    standin.status = {**STATUS, "available": False, "code": "paused", "message": "It is paused."}
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: widget.note == "It is paused.", 10, "the reason")
    standin.page = document(strings=strings(paused="Zu.", send="Senden", __proto__="x", constructor="y"))
    widget = show(standin, path="/page.html", ready=False)
    until(lambda: widget.note == "Zu.", 10, "the site's words")
    standin.status = {**standin.status, "code": "send"}
    widget.retry.click()
    until(lambda: widget.note == "It is paused.", 10, "the message")


def test_the_model_is_the_pages_choice(show, page, model):
    model.set(gap_ms=0)
    widget = show(page(models={"other": {"model": "practice-small"}}), model="other")
    widget.ask()
    widget.ended()
    assert model.last["model"] == "practice-small"


def test_the_theme_is_the_pages_choice(show, browser):
    def ground(widget):
        return browser.execute_script("return getComputedStyle(arguments[0]).backgroundColor", widget.one(".box"))

    server = show().server
    colours = {theme: ground(show(server, theme=theme)) for theme in ("light", "dark")}
    assert colours["light"] != colours["dark"]
    assert ground(show(server)) == colours["light"], "a page that says nothing is light"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    try:
        assert ground(show(server, theme="auto")) == colours["dark"]
        assert ground(show(server)) == colours["light"]
        assert ground(show(server, head='<meta name="color-scheme" content="light dark">')) == colours["dark"]
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("told, box, talk", [("", "en", "de"), ('data-lang="fr"', "fr", "fr")],
                         ids=["the page's", "its own"])
def test_each_language_is_marked(show, told, box, talk):
    """Or a screen reader speaks English words as German ones, or the other way about."""
    widget = show(text=document(lang="de").replace("defer>", told + " defer>"))
    assert [widget.one(css).get_attribute("lang") for css in (".box", ".talk")] == [box, talk]


def test_right_to_left_turns_the_box(show, model):
    model.set(text="שלום, the sea\n\nis salt", gap_ms=0)
    widget = show(direction="rtl", lang="he")
    widget.ask()
    widget.ended()
    sides = widget.browser.execute_script("""
        return arguments[0].map((one) => getComputedStyle(one).direction)""",
        [widget.one(".box"), *widget.answers[-1].find_elements("css selector", "p")])
    assert sides == ["rtl", "rtl", "ltr"], "each paragraph has a direction of its own"
    assert widget.send.rect["x"] < widget.one("#count").rect["x"]


def test_the_empty_box_has_the_widgets_direction(show):
    """Its caret stands where one begins; what is written finds its own."""
    widget = show(direction="rtl", lang="he")
    direction = "return getComputedStyle(arguments[0]).direction"
    assert widget.browser.execute_script(direction, widget.box) == "rtl"
    for text, found in (("Salt", "ltr"), ("", "rtl"), ("מלח", "rtl")):
        set_text(widget, text)
        assert widget.browser.execute_script(direction, widget.box) == found, text
