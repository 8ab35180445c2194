"""The LuCI app, without a router: its views run in node against a stand-in for LuCI (luci_standin.mjs),
fed with what the backend makes of real answers of the program about a real store."""
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]
import direct  # noqa: E402
import harness  # noqa: E402
import luci_strings  # noqa: E402

APP = luci_strings.APP
ROOT = harness.ROOT
STANDIN = pathlib.Path(__file__).with_name("luci_standin.mjs")
BACKEND = APP / "root/usr/share/rpcd/ucode/pennygate.uc"
VIEWS = {path.stem: path for path in luci_strings.views()}
ACL = APP / "root/usr/share/rpcd/acl.d/luci-app-pennygate.json"
MENU = APP / "root/usr/share/luci/menu.d/luci-app-pennygate.json"
PROGRAM = "/usr/sbin/pennygate"  # as the package installs it
UCI_FILE = ROOT / "openwrt/net/pennygate/files/pennygate.config"
TRANSLATIONS = sorted(APP.glob("po/*/pennygate.po"))
OBJECT = "luci.pennygate"
ENABLED = {".type": "pennygate", "enabled": "1", "server": "lighttpd"}
RUNNING = {"pennygate": {"instances": {"instance1": {"running": True, "pid": 1}}}}
HOSTILE = "<img src=x onerror=alert(1)>'\"&amp;%s"

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")


def standin(env=None, **given):
    done = subprocess.run(["node", STANDIN], input=json.dumps(given, default=str), text=True,
                          capture_output=True, timeout=120, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Router:
    """A site whose figures the backend can ask for."""

    def __init__(self, model=None, limits=None):
        self.site = harness.Site(model or type("Nobody", (), {"url": "http://127.0.0.1:1"}), limits)

    def ask(self, method, uci=None, services=None, **more):
        return standin(backend=BACKEND, method=method, uci={"main": uci or ENABLED},
                       services=RUNNING if services is None else services,
                       replace={PROGRAM: self.site.program},
                       env=self.site.environment(PENNYGATE_CONFIG=str(self.site.config)), **more)

    def answer(self, method="status", **how):
        return self.ask(method, **how)["answer"]


@pytest.fixture(name="router")
def make_router():
    router = Router()
    yield router
    shutil.rmtree(router.site.directory, ignore_errors=True)


@pytest.fixture(name="counting")
def make_counting(router):
    """A router with a store."""
    router.site.init()
    return router


def show(*answers, steps=(), **more):
    """The status page; the answers are what the backend gives from one question to the next."""
    return standin(view=VIEWS["status"], answers={"status": list(answers), **more}, steps=steps)


def stats_of(answer):
    return json.loads(answer["stats"]["stdout"])


def changed(answer, change):
    """The same with other figures."""
    answer, figures = copy.deepcopy(answer), stats_of(answer)
    change(figures)
    answer["stats"]["stdout"] = json.dumps(figures)
    return answer


# ---- the backend ----


def test_status_is_what_the_program_says(counting):
    answer = counting.answer()
    assert answer["service"] == {"enabled": True, "server": "lighttpd", "running": True, "errors": ""}
    assert stats_of(answer)["limits"][0]["name"] == "site-day"
    assert answer["stats"]["code"] == 0
    assert answer["check"]["code"] == 0 and answer["check"]["stdout"].endswith("\n0 faults\n")


def test_the_program_is_run_from_a_list_of_words(counting):
    """No shell, no word from outside, and by rpcd's file plugin, which bounds time and output."""
    for method, words in (("status", ["stats", "--json"]), ("status", ["check"]), ("pause", ["pause"]),
                          ("resume", ["resume"])):
        asked = counting.ask(method)
        runs = [args for key, args in asked["calls"] if key == "file exec"]
        assert {"command": PROGRAM, "params": words} in runs
        assert asked["methods"] == {OBJECT: [["status", None], ["pause", None], ["resume", None]]}
    source = BACKEND.read_text(encoding="utf-8")
    assert not re.search(r"popen|system\s*\(|`|bus\??\.call", source)


def test_pause_and_resume_hold_in_the_store(counting):
    for method, paused in (("pause", True), ("resume", False)):
        assert counting.answer(method)["code"] == 0
        assert stats_of(counting.answer())["paused"] is paused


def test_a_secret_of_the_configuration_is_not_in_the_answers(counting):
    answer = counting.answer(uci={**ENABLED, "key": "sk-in-uci"})
    assert "sk-" not in json.dumps(answer)


@pytest.mark.parametrize("lost", ["service list", "file exec"])
def test_an_answer_comes_also_when_rpcd_has_none(counting, lost):
    answer = counting.answer(lost=[lost])
    assert answer["service"]["running"] is (lost != "service list")
    assert (answer["stats"]["code"] == 0) is (lost != "file exec")
    show(answer)


# ---- the status page ----


@pytest.fixture(name="bounded")
def make_bounded():
    """A router that has a store, a model to ask, and two calls a day for everyone."""
    model = harness.Model()
    router = Router(model, {"site-day": harness.limit("everyone", "calls", "day", 2)})
    router.site.init()
    yield router
    model.stop()
    shutil.rmtree(router.site.directory, ignore_errors=True)


def test_calls_are_shown_as_the_program_has_counted_them(bounded):
    assert [direct.cgi(bounded.site)[0].status for _ in range(3)] == [200, 200, 429]
    bounded.site.settled()
    figures = stats_of(bounded.answer())
    page = show(bounded.answer())
    today = next(row for row in page["rows"] if row[0] == figures["today"])
    tokens = [str(figures["totals"][key]) for key in ("tokens_in", "tokens_out")]
    assert today[1:5] == ["2", "1", *tokens] and "0" not in tokens
    assert today[5].startswith("$0.0")
    row = next(row for row in page["rows"] if row[0] == "site-day")
    assert row[2] == "2 of 2 spent" and row[3] != "-"


def test_figures_are_shown(counting):
    def use(figures):
        figures["days"] = [{"day": figures["today"], "admitted": 1234, "tokens_in": 5000000, "tokens_out": 7,
                            "cost_nano": 1500000001, "upstream_errors": 3,
                            "refused": {"site": 5, "address": 6}}]
        figures["limits"] = [
            {"name": "spend", "per": "everyone", "unit": "cost", "window": "month", "used": 3 * 10**9,
             "reserved": 10**9, "frees_ms": 90061000, "max": 12 * 10**9, "dry_run": False, "pace": False,
             "released": 12 * 10**9},
            {"name": "slow", "per": "anonymous", "unit": "calls", "window": "1h", "used": 5, "reserved": 0,
             "frees_ms": 0, "max": 100, "dry_run": True, "pace": True, "released": 5}]
        figures["alerts"] = [{"event": "threshold", "time": "2026-11-30T11:22:33Z", "limit": "spend",
                              "percent": 80, "delivery": "given_up"}]

    page = show(changed(counting.answer(), use))
    days = [row for row in page["rows"] if re.fullmatch(r"\d{4}-\d\d-\d\d", row[0])]
    assert len(days) == 14
    assert days[0][1:] == ["1,234", "11", "5,000,000", "7", "$1.500000001", "3"]
    assert days[1][1:] == ["0", "0", "0", "0", "$0.00", "0"]
    assert ["spend", "cost, in a month, everyone together",
            "$3.00 of $12.00, of which $1.00 reserved for calls under way", "1 d 1 h"] in page["rows"]
    assert ["slow", "calls, in any 1h, all anonymous callers together, dry run: refuses nothing",
            "5 of 100; 5 released so far held back by its pace", "-"] in page["rows"]
    assert ["2026-11-30 11:22:33 UTC", "spend a limit was reached: 80 %", "given up"] in page["rows"]
    widths = [value for name, value in page["attributes"] if name == "style" and value.startswith("width:")]
    assert widths == ["width:25%", "width:5%"]
    assert page["footer"] == [None, None, None] and page["html"] == []


def test_cost_that_is_not_known_is_not_free(counting):
    def unpriced(figures):
        figures["days"] = [{**figures["totals"], "day": figures["today"], "cost_nano": None}]

    today = show(changed(counting.answer(), unpriced))["rows"]
    assert "-" in next(row for row in today if re.match(r"\d{4}-", row[0]))


def state_of(page, name):
    return next(row[1] for row in page["rows"] if row[0] == name)


STATES = [
    ("three quarters are not yet too much", "Store", "ok",
     lambda f: f["store"].update(used_bytes=750, size_bytes=1000)),
    ("more than three quarters are", "Store", "nearly full",
     lambda f: f["store"].update(used_bytes=751, size_bytes=1000)),
    ("a store ahead of the clock", "Clock", "ahead The store is ahead of the clock by 2 h",
     lambda f: f["clock"].update(ahead_s=7200)),
    ("a store that goes by the clock", "Clock", "ok", lambda f: None),
    ("a site that is paused", "Calls", "paused", lambda f: f.update(paused=True)),
    ("a model whose API fails", "Models", "left alone demo for 30 s",
     lambda f: f["models"][0].update(breaker_open=True, breaker_wait_ms=30999)),
    ("calls under way", "Calls under way", "3", lambda f: f.update(open_streams=3)),
]


@pytest.mark.parametrize("what,name,words,change", STATES, ids=[state[0] for state in STATES])
def test_state(counting, what, name, words, change):
    assert state_of(show(changed(counting.answer(), change)), name).startswith(words), what


LIMITS = [
    ("79 %", {"used": 79, "max": 100}, ""),
    ("80 %", {"used": 80, "max": 100}, "nearly spent"),
    ("all", {"used": 100, "max": 100}, "spent"),
    ("more than all", {"used": 101, "max": 100}, "spent"),
    ("nothing of nothing", {"used": 0, "max": 0}, "spent"),
    ("all places", {"used": 2, "max": 2, "unit": "concurrent"}, "all taken"),
    ("without end", {"used": 10**15, "max": None}, ""),
]


@pytest.mark.parametrize("what,limit,words", LIMITS, ids=[limit[0] for limit in LIMITS])
def test_standing_of_a_budget(counting, what, limit, words):
    def use(figures):
        figures["limits"][0].update(limit)

    row = next(row for row in show(changed(counting.answer(), use))["rows"] if row[0] == "site-day")
    assert row[2].endswith(words) and ("spent" in row[2] or "taken" in row[2]) == bool(words), what


def test_buttons_pause_and_resume(counting):
    before = counting.answer()
    done = counting.answer("pause")
    after = counting.answer()
    page = show(before, after, steps=["Pause"], pause=done)
    assert page["buttons"] == ["Resume"] and page["notes"] == []
    assert [method for _, method in page["calls"]] == ["status", "pause", "status"]
    page = show(after, before, steps=["Resume"], resume=counting.answer("resume"))
    assert page["buttons"] == ["Pause"]


@pytest.mark.parametrize("readonly", [False, True])
def test_who_may_only_look_cannot_press(counting, readonly):
    page = standin(view=VIEWS["status"], answers={"status": [counting.answer()]}, readonly=readonly)
    assert page["buttons"] == ["Pause"]
    assert ("disabled" in [name for name, _ in page["attributes"]]) is readonly


def test_a_button_that_does_nothing_says_so(counting):
    answer = counting.answer()
    shutil.move(counting.site.store, counting.site.directory / "lost")
    page = show(answer, steps=["Pause"], pause=counting.answer("pause"))
    assert "there is no store" in page["notes"][0] and page["buttons"] == ["Pause"]
    page = show(answer, steps=["Pause"], pause="reject")
    assert page["notes"] == ["access denied"]
    page = show(answer, steps=["Pause"], pause=6)  # ubus: permission denied
    assert page["notes"] == ["rpcd has refused this, or not answered"]


def test_asks_again_but_not_too_often(counting):
    answer = counting.answer()
    page = show(answer, changed(answer, lambda f: f.update(paused=True)), steps=["poll"])
    assert page["buttons"] == ["Resume"]
    assert page["polls"] == [10]


def test_disabled_says_what_to_do(router):
    answer = router.answer(uci={".type": "pennygate", "enabled": "0"}, services={})
    page = show(answer)
    assert state_of(page, "Service").startswith("disabled")
    assert "not enabled" in page["text"] and page["buttons"] == []


def test_a_missing_store_is_told_with_the_program_s_words(router):
    router.site.init()
    shutil.move(router.site.store, router.site.directory / "lost")
    page = show(router.answer())
    assert f"there is no store at {router.site.store}" in page["text"]
    assert "put a copy back" in page["text"] and page["buttons"] == []
    assert state_of(page, "Configuration and store").startswith("fault 1 fault")


def test_a_configuration_that_is_not_there(router):
    router.site.config.unlink()
    page = show(router.answer())
    assert "not found" in state_of(page, "Configuration and store")


def test_half_an_answer_is_none(counting):
    answer = counting.answer()
    answer["stats"]["stdout"] = answer["stats"]["stdout"][:200]
    assert "did not come to an end" in show(answer)["text"]
    answer["check"]["stdout"] = answer["check"]["stdout"][:200]
    assert state_of(show(answer), "Configuration and store").startswith("fault pennygate check did not")


@pytest.mark.parametrize("answer", [None, {}, {"service": {}}, "reject", 6])
def test_without_rpcd(answer):
    page = standin(view=VIEWS["status"], answers={"status": answer})
    assert "rpcd has not answered" in page["text"]


def test_service_that_does_not_run(counting):
    stopped = {"pennygate": {"instances": {"instance1": {"running": False}}}}
    assert state_of(show(counting.answer(services=stopped)), "Service").startswith("not running")
    assert state_of(show(counting.answer(services={}, uci={**ENABLED, "server": "uhttpd"})),
                    "Service").startswith("enabled")
    assert state_of(show(counting.answer()), "Service") == "running"


def test_faults_and_notes_of_check_are_listed(counting):
    counting.site.site["cookie-cross-site"] = "yes"
    counting.site.write()
    counting.answer("pause")
    words = state_of(show(counting.answer()), "Configuration and store")
    assert words.startswith("fault 1 fault: every request is answered with 503")
    assert "cookie-cross-site" in words and "the site is paused: nobody is admitted" in words
    assert "max-output-tokens" not in words


def test_a_change_that_was_refused_is_told(counting):
    """The program does not know of it: what the init script said is shown, not more than a page of it."""
    errors = "/etc/config/pennygate: main.mount is no path\nthe configuration before this one stays\n"
    page = show(counting.answer(files={"/var/run/pennygate/errors": errors + "x" * 10000}))
    words = state_of(page, "Settings")
    assert "main.mount is no path" in words and len(words) < 5000
    assert "Settings" not in [row[0] for row in show(counting.answer())["rows"]]


def test_texts_of_others_stay_text(counting):
    """Whatever could come in a name: none of it becomes HTML, in the page or in a notification."""
    def use(figures):
        figures["limits"][0].update(name=HOSTILE, per=HOSTILE, unit=HOSTILE, window=HOSTILE)
        figures["models"][0].update(name=HOSTILE, breaker_open=True, breaker_wait_ms=1000)
        figures["alerts"] = [{"event": HOSTILE, "time": HOSTILE, "model": HOSTILE, "delivery": HOSTILE}]
        figures["zone"] = HOSTILE

    answer = changed(counting.answer(), use)
    answer["service"]["errors"] = HOSTILE
    answer["check"].update(stdout=f"FAULT       {HOSTILE}\n\n1 fault {HOSTILE}\n")
    page = show(answer, steps=["Pause"], pause={"code": 1, "stderr": HOSTILE})
    assert page["html"] == []
    assert page["text"].count(HOSTILE) >= 10
    assert page["notes"] == [HOSTILE]
    assert not [value for name, value in page["attributes"] if HOSTILE in value and name != "data-title"]
    answer["stats"] = {"code": 1, "stdout": "", "stderr": HOSTILE}
    page = show(answer)
    assert page["html"] == [] and HOSTILE in page["text"]


# ---- the settings ----


def uci_options():
    """{type: options} of the package's configuration, also of those that are only shown in a comment."""
    found, section = {}, None
    for line in UCI_FILE.read_text(encoding="utf-8").splitlines():
        head = re.match(r"#?config (\w+)", line)
        option = re.match(r"#?\t#?(?:option|list) (\w+) ", line)
        if head:
            section = found.setdefault(head.group(1), set())
        elif option:
            section.add(option.group(1))
    return found


def settings(**given):
    return standin(view=VIEWS["settings"], **given)


def settings_sections(page):
    return {section["type"]: section for section in page["maps"][0]["sections"]}


def test_the_form_has_the_options_of_the_configuration():
    form = {kind: {option["name"] for option in section["options"]}
            for kind, section in settings_sections(settings()).items()}
    there = uci_options()
    there["model"].add("name")  # told of in the head of the file
    assert form == there


def test_each_option_has_a_help_text():
    for section in settings_sections(settings()).values():
        for option in section["options"]:
            assert option["title"] and option["help"], option["name"]
            assert not re.search(r"[<>&]", option["title"] + option["help"]), "LuCI takes it for HTML"


def test_what_is_hidden_is_kept():
    """LuCI deletes what is not shown when the form is saved: with another web server tried out, the path
    would be gone. Only a limit of calls at once has to be without its window."""
    dropped = {option["name"] for section in settings_sections(settings()).values()
               for option in section["options"] if not option["kept"]}
    assert dropped == {"window"}


def test_kinds_of_sections():
    kinds = {kind: section["kind"] for kind, section in settings_sections(settings()).items()}
    assert kinds == {"pennygate": "NamedSection", "model": "TypedSection", "limit": "GridSection",
                     "alerts": "NamedSection"}


SECRETS = {"model": ("key", "key"), "alerts": ("_token", "token")}
KEPT = {"default": {".type": "model", "key": "sk-kept-1", "url": "https://api.example.org/v1"},
        "alerts": {".type": "alerts", "token": "tk-kept-2"}}


def test_secrets_are_written_only():
    page = settings(uci=KEPT)
    assert "kept-" not in json.dumps(page)
    assert "https://api.example.org/v1" in json.dumps(page)
    for kind, (form_name, name) in SECRETS.items():
        option = next(o for o in settings_sections(page)[kind]["options"] if o["name"] == name)
        assert option["password"]
        shown = next(o for o in page["maps"][0]["shown"] if o["name"] == form_name)
        assert shown["value"] is None and shown["placeholder"].startswith("kept")
        assert settings(uci=KEPT, write=[[kind, form_name, "new"]])["writes"][-1] == ["x", name, "new"]
        assert settings(uci=KEPT, write=[[kind, form_name, ""]])["writes"] == [], "an empty field keeps it"
    without = settings(uci={"default": {".type": "model"}})
    assert next(o for o in without["maps"][0]["shown"] if o["name"] == "key")["placeholder"] == "none"


@pytest.mark.parametrize("entered,dropped", [("key", "key_file"), ("key_file", "key")])
def test_a_key_and_a_file_with_it_are_not_kept_both(entered, dropped):
    """The init script refuses both, and a key is nothing that the form could show to be deleted."""
    page = settings(uci=KEPT, write=[["model", entered, "/new"]])
    assert page["writes"] == [["x", dropped, None], ["x", entered, "/new"]]


@pytest.mark.parametrize("name", ["main", "alerts", "default"])
def test_a_new_model_takes_no_section_that_is_there(name):
    kept = {**KEPT, "main": ENABLED}
    page = settings(uci=kept, add=[["model", name]])
    assert page["writes"] == [] and page["notes"] == ["There is a section of that name."]
    page = settings(uci=kept, add=[["model", "other"]])
    assert page["writes"] == [["other", ".type", "model"]] and page["notes"] == []


def test_a_limit_is_called_as_its_section_if_it_has_no_name():
    page = settings(uci={"spend": {".type": "limit"}, "cfg01": {".type": "limit", ".anonymous": True},
                         "visitor_day": {".type": "limit", "name": "visitor-day"}})
    names = {o["id"]: o["value"] for o in page["maps"][0]["shown"] if o["name"] == "name"}
    assert names == {"spend": "spend", "cfg01": None, "visitor_day": "visitor-day"}


VALUES = [
    ("pennygate", "mount", ["/ai", "/a/b"], ["ai", "/a b", "/", "/ai/", "//ai", "/a'b"]),
    ("pennygate", "port", ["1", "8080", "65535", ""], ["0", "65536", "08080", "80.5", "-1"]),
    ("pennygate", "max_history", ["1", "1024", ""], ["0", "1025", "1.5", "010"]),
    ("alerts", "at", ["1", "100"], ["0", "101", "80.5", "080"]),
    ("model", "thinking_tokens", ["0", "1048576", ""], ["1048577", "0.5", "00"]),
    ("pennygate", "retention", ["7d", "24h", ""], ["7", "d", "0d", "7 d", "1.5d", "7d\n"]),
    ("pennygate", "allowed_origin", ["https://www.example.org", "http://localhost:8000"],
     ["*", "null", "www.example.org", "https://a.example/path", "https://*.example.org"]),
    ("pennygate", "max_body_bytes", ["64K", "65536", "1M"], ["64k", "0", "-1", "6.4K"]),
    ("model", "name", ["default", "gpt-4.1_x", "a" * 31], ["a b", "a'b", "a" * 32, "ä"]),
    ("model", "url", ["https://api.openai.com/v1", "http://192.168.1.2:11434/v1"],
     ["api.openai.com/v1", "ftp://x/v1", "https:///v1", "https://a b/v1"]),
    ("model", "model", ["gpt-4o-mini", "meta/llama-3:free"], ["a b", "a'b", 'a"b', "a\\b", "a\nb"]),
    ("model", "key_file", ["/etc/pennygate/key", "/etc/pennygate/keys/a"],
     ["key", "~/key", "/etc/key", "/etc/pennygate/", "/etc/pennygate/secret", "/etc/pennygate2/key"]),
    ("model", "price_input", ["0", "0.15", "$0.15", "1000.00", "0.123456789"],
     ["0,15", ".5", "1.", "00.1", "-1", "1e3", "$", "0.1234567890"]),
    ("model", "input_factor", ["1", "1.5", "4", "4.000"], ["0.5", "4.1", "5", "1.2345"]),
    ("limit", "name", ["visitor-day", "a_b"], ["a.b", "<b>", "a" * 32]),
    ("limit", "window", ["hour", "day", "month", "10s", "30d"], ["week", "10", "10 s", "Day", "010s"]),
]


@pytest.mark.parametrize("kind,name,good,bad", VALUES, ids=[f"{row[0]}.{row[1]}" for row in VALUES])
def test_values_of_an_option(kind, name, good, bad):
    """A typing error in a limit must never become no limit: what the program refuses is refused here."""
    verdicts = settings(validate=[[kind, name, value] for value in good + bad])["verdicts"]
    assert verdicts[:len(good)] == [True] * len(good)
    assert all(isinstance(verdict, str) for verdict in verdicts[len(good):]), list(zip(bad, verdicts[len(good):]))


def test_numbers_are_not_left_to_luci():
    """Of its datatypes range takes 1.5 and 010, port 0, and ipaddr alone 192.0.2.0/255.255.255.0."""
    datatypes = {option["datatype"] for section in settings_sections(settings()).values()
                 for option in section["options"]}
    assert datatypes == {None, 'or(ipaddr("nomask"),cidr)'}


@pytest.mark.parametrize("word,checked", [(word, True) for word in ("1", "on", "true", "yes", "enabled")]
                         + [(word, False) for word in ("0", "off", "false", "no", "disabled", None)])
def test_a_yes_in_any_of_its_words_is_shown(word, checked):
    """What is shown as a no becomes one when the form is saved: the service would stop, and a limit
    that only counts would refuse."""
    page = settings(uci={"main": {".type": "pennygate", "enabled": word, "cookie_cross_site": word},
                         "spend": {".type": "limit", "dry_run": word, "pace": word}})
    shown = {option["name"]: option["checked"] for option in page["maps"][0]["shown"] if "checked" in option}
    assert shown == dict.fromkeys(["enabled", "cookie_cross_site", "dry_run", "pace"], checked)


@pytest.mark.parametrize("unit,good,bad", [
    ("calls", ["0", "40", "1000000000000000", "unlimited"],
     ["", "040", "4.0", "-1", "1e3", "0x10", "1000000000000001", "Unlimited", "$5"]),
    ("cost", ["0", "5.00", "$5", "unlimited"], ["5,00", "five", "1e3"]),
])
def test_max_is_of_what_the_limit_counts(unit, good, bad):
    page = settings(form={"unit": unit}, validate=[["limit", "max", value] for value in good + bad])
    assert [verdict is True for verdict in page["verdicts"]] == [True] * len(good) + [False] * len(bad)


# What a list offers must be what the program takes: "auto" alone is the init script's.
OFFERED = {"durability": {"auto", "lease"}, "server": {"lighttpd", "uhttpd"}, "profile": {"router", "board", "vps"}}
KEYS = {"log_level": "level"}  # where it is not the name with - in place of _


def test_choices_are_those_of_the_manual():
    manual = (ROOT / "gateway/pennygate.conf.5").read_text(encoding="utf-8")
    for section in settings_sections(settings()).values():
        for option in section["options"]:
            if option["kind"] != "ListValue":
                continue
            key = KEYS.get(option["name"], option["name"].replace("_", "-"))
            rows = re.findall(rf"^\.It Cm {key} = (.*)$", manual, re.M)
            words = {word for row in rows for word in re.split(r"[ |]+", row)} | OFFERED.get(option["name"], set())
            assert set(option["choices"]) <= words, option["name"]


# ---- rights, menu, package ----


def declared():
    found = set()
    for path in VIEWS.values():
        found |= set(re.findall(r"rpc\.declare\(\{ object: '([^']+)', method: '([^']+)'",
                                path.read_text(encoding="utf-8")))
    return found


def test_rights_are_what_the_views_need_and_no_more():
    acl = json.loads(ACL.read_text(encoding="utf-8"))
    granted = {(name, method) for group in acl.values() for right in ("read", "write")
               for name, methods in group[right].get("ubus", {}).items() for method in methods}
    assert granted == declared() == {(OBJECT, "status"), (OBJECT, "pause"), (OBJECT, "resume")}
    status, form = acl["luci-app-pennygate"], acl["luci-app-pennygate-settings"]
    assert status["read"] == {"ubus": {OBJECT: ["status"]}}, "who sees the figures must not see a key"
    assert status["write"] == {"ubus": {OBJECT: ["pause", "resume"]}}
    assert form["read"] == form["write"] == {"uci": ["pennygate"]}


def test_menu_leads_to_the_views_by_rights_that_are_there():
    menu = json.loads(MENU.read_text(encoding="utf-8"))
    acl = json.loads(ACL.read_text(encoding="utf-8"))
    paths = {entry["action"]["path"] for entry in menu.values() if entry["action"]["type"] == "view"}
    assert paths == {f"pennygate/{name}" for name in VIEWS}
    for path, entry in menu.items():
        # LuCI asks for those of all that is above, too.
        needed = {name for above, one in menu.items() if f"{path}/".startswith(f"{above}/")
                  for name in one["depends"].get("acl", ())}
        assert needed <= set(acl)
        assert len(needed) == (entry["action"]["type"] == "view"), "one right is enough for a page"


def test_views_need_modules_that_luci_has():
    known = {"view", "dom", "poll", "rpc", "ui", "form", "uci"}
    for path in VIEWS.values():
        assert set(re.findall(r"^'require ([\w.]+)", path.read_text(encoding="utf-8"), re.M)) <= known


def test_package():
    text = (APP / "Makefile").read_text(encoding="utf-8")
    version = re.search(r"^VERSION += (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M).group(1)
    assert f"\nPKG_VERSION:={version}\n" in text
    assert "\nPKG_LICENSE:=ISC\n" in text
    assert "\nLUCI_MAINTAINER:=$(PKG_MAINTAINER)\nLUCI_URL:=\n" in text, "luci.mk takes no others"
    assert text.rstrip().endswith("# call BuildPackage - OpenWrt buildroot signature"), "scan.mk looks for it"
    assert "\ninclude $(TOPDIR)/rules.mk\n" in text and "\ninclude $(TOPDIR)/feeds/luci/luci.mk\n" in text
    depends = set(re.search(r"^LUCI_DEPENDS:=((?:.*\\\n)*.*)$", text, re.M).group(1)
                  .replace("\\", "").split())
    used = {"+ucode-mod-" + name for name in re.findall(r"^import .* from '(\w+)';",
                                                        BACKEND.read_text(encoding="utf-8"), re.M)}
    assert used | {"+luci-base", "+pennygate", "+rpcd-mod-file", "+rpcd-mod-ucode"} == depends


# ---- translations ----


def test_template_has_exactly_the_strings():
    assert luci_strings.TEMPLATE.read_text(encoding="utf-8") == luci_strings.template(), \
        "tests/openwrt/luci_strings.py writes it anew"


def test_strings_of_the_views_are_found(counting):
    """What was asked to be translated while the views ran is in the template."""
    said = set(show(counting.answer())["strings"]) | set(settings(uci=KEPT)["strings"])
    template = luci_strings.entries(luci_strings.TEMPLATE.read_text(encoding="utf-8"))
    assert len(said) > 150 and said <= set(template)


@pytest.mark.parametrize("path", TRANSLATIONS, ids=[path.parent.name for path in TRANSLATIONS])
def test_translation_is_whole(path):
    wanted = list(luci_strings.strings())
    told = luci_strings.entries(path.read_text(encoding="utf-8"))
    assert list(told) == wanted
    for string, translated in told.items():
        assert translated, string
        assert translated.count("%s") == string.count("%s"), string
        assert not re.search(r"[<>&]", translated), string


def test_there_is_a_translation():
    assert "de" in [path.parent.name for path in TRANSLATIONS]


@pytest.mark.skipif(not shutil.which("msgfmt"), reason="gettext is not installed")
@pytest.mark.parametrize("path", [luci_strings.TEMPLATE, *TRANSLATIONS], ids=lambda path: path.name)
def test_translations_compile(path):
    done = subprocess.run(["msgfmt", "-c", "-o", os.devnull, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
