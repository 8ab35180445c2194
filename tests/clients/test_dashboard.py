"""The dashboard in Chromium, through lighttpd, by its password: the figures that it shows are those
of the store, anybody can read it, and it needs nothing but its style."""
import base64
import itertools
import re

import pytest

from harness import MOUNT, limit, until
from widget import AXE, run_axe

MARKS = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent.trim())"
TABLES = """
return Object.fromEntries([...document.querySelectorAll('table')].map((table) => [
    table.closest('section').querySelector('h2').id + ' ' + table.closest('.chart')?.querySelector('h3').firstChild.textContent.trim(),
    [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()))]));"""
BUDGETS = """
return Object.fromEntries([...document.querySelectorAll('.budgets li')].map((one) => [
    one.querySelector('h3').firstChild.textContent.trim(),
    { amounts: [...one.querySelectorAll('p b')].map((b) => b.textContent),
      bars: [...one.querySelectorAll('rect')].map((bar) => [bar.getAttribute('class'), +bar.getAttribute('x'),
                                                            +bar.getAttribute('width')]) }]));"""


class Dashboard:
    """The dashboard of a site in the browser."""

    def __init__(self, browser, server):
        self.browser, self.server = browser, server
        self.word = server.site.run("dashboard-password").strip()
        browser.get_log("browser")  # what earlier pages have left
        self.show()

    def show(self):
        self.browser.get(f"http://owner:{self.word}@127.0.0.1:{self.server.port}{MOUNT}/dashboard")

    def tables(self):
        return {name.removesuffix(" undefined"): rows for name, rows in self.browser.execute_script(TABLES).items()}

    def when(self, condition, what):
        """Shown anew until it is so: it is up to a second old."""
        def look():
            self.show()
            return condition()
        return until(look, 15, what)

    def json(self):
        owner = "Authorization", "Basic " + base64.b64encode(f"any:{self.word}".encode()).decode()
        return self.server.get("/dashboard.json", headers=[owner]).json


@pytest.fixture
def used(site, model):
    """A function that starts a site and has it used in each way that the dashboard tells of; one stream
    is open."""
    def start():
        server = site(demo={"breaker-after": 1, "breaker-pause": "1h"}, limits={
            "visitor-day": limit("address", "calls", "day", 3),
            "site-day": limit("everyone", "calls", "day", 16),
            "spend": limit("everyone", "cost", "month", "$2.00"),
            "free": limit("everyone", "tokens", "1h", "unlimited"),
            "places": limit("everyone", "concurrent", None, 8),
            "trial": {**limit("address", "calls", "day", 1), "dry-run": "yes"},
        }, models={"other": {}}).start(procs=2)
        model.set(prompt_tokens=1234, completion_tokens=56, gap_ms=0)
        for n, calls in enumerate((5, 3, 2, 3)):  # two of the first are too many
            for _ in range(calls):
                server.chat(source=f"127.0.7.{1 + n}")
        server.chat([{"role": "system", "content": "x"}], source="127.0.7.9")
        server.site.settled()
        model.set(status=500)
        assert server.chat(source="127.0.7.8").status == 502
        model.set(status=200, chunks=600, gap_ms=100)
        server.stream = server.begin(stream=True, source="127.0.7.7", fields={"model": "other"})
        server.stream.wait_for(b"data: ")
        return server
    yield start
    model.set(gap_ms=0)


def number(n):
    return f"{n:,}"


def money(nano):
    whole, part = divmod(nano, 10**9)
    digits = f"{part:09}"
    return f"${whole:,}.{digits[:2]}{digits[2:].rstrip('0')}"


def amount(unit, n):
    return money(n) if unit == "cost" else number(n)


def expected_budgets(stats):
    budgets = {}
    for one in stats["limits"]:
        spent = one["used"] - (0 if one["unit"] == "concurrent" else one["reserved"])
        said = [spent] + ([] if one["unit"] == "concurrent" else [one["reserved"]])
        said += [] if one["max"] is None else [one["max"]]
        bars = []
        if one["max"] is not None:
            ends = [share(n, one["max"]) for n in (0, spent, one["used"])]
            bars = [["s" + str(i + 1), ends[i], ends[i + 1] - ends[i]] for i in (0, 1) if ends[i + 1] > ends[i]]
        budgets[one["name"]] = {"amounts": [amount(one["unit"], n) for n in said], "bars": bars}
    return budgets


def share(n, of):
    return 0 if n == 0 else max(1, n * 1000 // of)


REASONS = {"burst": "too many within seconds", "address": "limit per address", "concurrent": "too many at once"}


def expected_tables(stats):
    day = stats["days"][-1]
    refused = sum(day["refused"].values())
    reasons = [["by limits, all together", refused]] + [[REASONS[name], n] for name, n in day["refused"].items() if n]
    reasons += [["malformed or incomplete", day["invalid"]], ["model left alone", day["breaker"]]]
    return {
        "days Calls": [day["day"], *map(number, (day["admitted"], refused, day["upstream_errors"]))],
        "days Tokens": [day["day"], number(day["tokens_in"]), number(day["tokens_out"])],
        "days Money": [day["day"], money(day["cost_nano"])],
        "refusals": [[name, number(n), number(n)] for name, n in reasons if n],
        "upstream": [[one["name"], str(one["failures"]), number(one["overhead"]),
                      "left alone" if one["breaker_open"] else "in use"] for one in stats["models"]],
        "dry": [["trial calls per address, day", *[number(day["dry_run"]["trial"])] * 2]],
        "callers": [[f"{one['per']} {one['name']}", number(one["calls"]), number(one["tokens"]),
                     money(one["cost_nano"])] for one in stats["top_callers"]],
        "alerts": len(stats["alerts"]),
    }


def shown_tables(tables):
    """The same of the page; of the days only today's row, the others are checked here."""
    shown = dict(tables)
    for name in ("days Calls", "days Tokens", "days Money"):
        today, *before = shown[name]
        assert len(before) == 29 and all(set(cells) <= {"0", "$0.00"} for _, *cells in before)
        shown[name] = today
    shown["upstream"] = [[*row[:3], row[3].split(" for ")[0]] for row in shown["upstream"]]
    shown["alerts"] = len(shown["alerts"])
    return shown


def steady(stats):
    """Without what goes on by itself: times, and the figures of the pages' own requests."""
    limits = [{key: value for key, value in one.items() if key != "frees_ms"} for one in stats["limits"]]
    models = [{key: value for key, value in one.items() if key != "breaker_wait_ms"} for one in stats["models"]]
    kept = {key: value for key, value in stats.items() if key not in ("store", "clock")}
    return {**kept, "limits": limits, "models": models}


def test_f5_the_figures_are_the_stores(used, browser):
    server = used()
    page = Dashboard(browser, server)
    until(lambda: len(server.site.stats()["alerts"]) == 2, 10, "the breaker's alert, and that of the budget")
    stats = server.site.stats()
    page.when(lambda: shown_tables(page.tables()) == expected_tables(stats), "the store's figures")
    assert browser.execute_script(BUDGETS) == expected_budgets(stats)
    day = stats["days"][-1]
    assert (day["admitted"], day["refused"]["address"], day["upstream_errors"], day["invalid"]) == (13, 2, 1, 1)
    assert day["tokens_out"] == 11 * 56 + 100, "as reported, and as reserved for the one that failed"
    assert [one["calls"] for one in stats["top_callers"]][:4] == [3, 3, 3, 2]
    state = browser.find_element("css selector", ".state").text
    assert "1 open now" in state and "demo is left alone for" in state
    reserved = {one["name"]: one["reserved"] for one in stats["limits"]}
    assert reserved["site-day"] == 1 and reserved["spend"] > 0 and reserved["free"] > 0
    until(lambda: steady(page.json()) == steady(stats), 10, "the same as JSON")
    server.stream.close()
    until(lambda: server.site.stats()["open_streams"] == 0, 10, "the end of the stream")
    page.when(lambda: "0 open now" in browser.find_element("css selector", ".state").text, "its end on the page")
    # The place is free at once, the money a moment later.
    page.when(lambda: browser.execute_script(BUDGETS) == expected_budgets(server.site.stats()), "what it came to")


def test_the_refusals_begin_where_the_page_says(site, browser, model):
    """Spent and refused are one figure: not a call more, and the next one is told."""
    server = site(limits={"site-day": limit("everyone", "calls", "day", 3)}).start()
    page = Dashboard(browser, server)
    for n in range(3):
        assert server.chat(source=f"127.0.7.{n + 1}").status == 200
    page.when(lambda: browser.execute_script(BUDGETS)["site-day"]["amounts"] == ["3", "0", "3"], "all three")
    assert "spent" in browser.execute_script(MARKS, ".budgets .bad")
    assert browser.title == "budget spent - Pennygate"
    assert server.chat(source="127.0.7.9").code == "site_limit" and model.count == 3


def media(browser, **features):
    kind = features.pop("media", "")
    wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": wanted})


@pytest.fixture
def looks(browser):
    """A function that sets what a person prefers, and how wide the screen is."""
    def set_looks(width=None, **features):
        media(browser, **features)
        if width:
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": 640, "deviceScaleFactor": 1, "mobile": True})
    yield set_looks
    media(browser)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true"


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: tests/run-all browser does it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(used, browser, looks, scheme):
    """In all that it can tell: bars, trouble, and the tables behind the drawings."""
    looks(prefers_color_scheme=scheme)
    server = used()
    page = Dashboard(browser, server)
    page.when(lambda: browser.execute_script(MARKS, ".state .bad"), "the trouble")
    assert run_axe(browser) == []
    browser.execute_script(OPEN_ALL)
    assert run_axe(browser) == []
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 31)"}[scheme]


@pytest.mark.parametrize("kind, scheme", [("", "light"), ("", "dark"), ("print", "light")])
def test_spent_and_reserved_look_as_the_legend_says(used, browser, looks, kind, scheme):
    Dashboard(browser, used())
    looks(media=kind, prefers_color_scheme=scheme)
    spent, reserved, first, second, edge = browser.execute_script("""
        const style = (css) => getComputedStyle(document.querySelector(css));
        return [style('rect.s1').fill, style('rect.s2').fill, style('.k1').borderTopColor, style('.k2').backgroundColor,
                style('rect.s2').stroke];""")
    assert (spent, reserved) == (first, second) and spent != reserved and edge == spent


def test_a_narrow_screen_scrolls_one_way_only(used, browser, looks):
    looks(width=320)
    Dashboard(browser, used())
    for _ in range(2):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 320
        browser.execute_script(OPEN_ALL)


def test_it_needs_no_javascript_and_breaks_no_policy(used, browser):
    server = used()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page = Dashboard(browser, server)
        assert browser.find_element("css selector", ".budgets rect").is_displayed()
        assert browser.find_element("css selector", "#refusals").is_displayed()
        summary = browser.find_element("css selector", "summary")
        table = browser.find_element("css selector", "details table")
        assert not table.is_displayed()
        summary.click()
        assert table.is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    page.show()
    console = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert [text for text in console if "favicon.ico" not in text] == []


def test_a_page_and_its_style_weigh_little(used, browser):
    Dashboard(browser, used())
    loaded = {name.rpartition("/")[2]: (size, sent) for name, size, sent in browser.execute_script("""
        return performance.getEntries().filter((one) => 'decodedBodySize' in one && !one.name.endsWith('favicon.ico'))
            .map((one) => [one.name, one.decodedBodySize, one.transferSize]);""")}
    assert loaded.keys() == {"dashboard", "dashboard.css"}, "two requests"
    assert 0 < loaded["dashboard"][0] < 65536
    assert sum(size for size, _ in loaded.values()) < 65536


def luminance(colour):
    return sum(map(int, itertools.islice(re.findall(r"\d+", colour), 3)))


def test_it_prints_in_black_on_white(used, browser, looks):
    """Whatever the screen has: browsers leave grounds out, so what matters is drawn."""
    Dashboard(browser, used())
    looks(media="print", prefers_color_scheme="dark")
    colours = browser.execute_script("""
        const style = (css) => getComputedStyle(document.querySelector(css));
        return [style('body').color, style('.s1').fill, style('.s2').stroke, style('.bad').color,
                style('body').backgroundColor];""")
    assert [luminance(colour) for colour in colours] == [0, 0, 0, 0, 765]
    assert not browser.find_element("css selector", "summary").is_displayed()
    days = browser.find_elements("css selector", "details tbody tr")
    assert len(days) == 90 and days[0].size["height"] > 0, "figures, since nobody can point at a bar"
    looks()
    paper = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 4
