"""GET /metrics: what a strict reader makes of it, fresh and after much use, over several processes, and
that its figures are those of `stats --json`."""
import base64
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
from decimal import Decimal

import pytest

from harness import ROOT, limit, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import openmetrics  # noqa: E402

HISTOGRAMS = ("pennygate_decision_seconds", "pennygate_first_byte_seconds")


class Watched:
    """A site whose owner collects its metrics."""

    def __init__(self, place, mode="spawned", **options):
        self.site, self.mode, self.options = place, mode, options
        password = place.run("dashboard-password").split()[-1]
        self.proof = "Basic " + base64.b64encode(f"owner:{password}".encode()).decode()
        self.server = place.start(mode, **options)

    def restart(self, between=lambda: None):
        self.server.stop()
        between()
        self.site.socket.unlink(missing_ok=True)  # what a start waits for
        self.server = self.site.start(self.mode, **self.options)

    def body(self):
        answer = self.server.get("/metrics", headers=[("Authorization", self.proof)])
        assert answer.status == 200, answer.body
        assert answer.header("Content-Type") == openmetrics.CONTENT_TYPE
        assert answer.header("Cache-Control") == "no-store"
        return answer.body

    def families(self):
        return openmetrics.parse(self.body())

    def when(self, condition, what="a figure"):
        """The families as soon as they are so: a process shows what is up to a second old, and a CGI
        counts some of it after its answer."""
        def look():
            families = self.families()
            return families if condition(families) else None
        return until(look, 15, what)

    def settled(self, decisions=None):
        """The families of a process that shows all settles of what was admitted, and so many decisions."""
        day = self.site.settled()
        return self.when(lambda f: sum(f["pennygate_settled"].all("_total", "kind").values()) == day["admitted"] and
                         decisions in (None, value(f, "decision_seconds", "_count")), "all settles and decisions")


@pytest.fixture
def watched(site):
    def start(mode="spawned", procs=1, **options):
        return Watched(site(**options), mode, procs=procs)
    return start


def value(families, name, suffix="_total", **labels):
    return families["pennygate_" + name].of(suffix, **labels)


def counters(families):
    """All that may never fall, by sample."""
    return {(family.name, suffix, *labels.items()): number
            for family in families.values() for suffix, labels, number in family.samples
            if suffix in ("_total", "_bucket", "_count", "_sum", "_created")}


def zero(families):
    return not any(number for (_, suffix, *_), number in counters(families).items() if suffix != "_created")


def same_as_stats(families, stats):
    """What both tell must be the same; returns what is not."""
    live, totals = stats["live"], stats["totals"]
    pairs = {
        "admitted": (value(families, "admitted"), totals["admitted"]),
        "reported": (value(families, "settled", kind="reported"), totals["settled"]),
        "unknown": (value(families, "settled", kind="unknown"), totals["unknown"]),
        "given back": (value(families, "settled", kind="given_back"), totals["given_back"]),
        "input": (value(families, "tokens", direction="input"), totals["tokens_in"]),
        "output": (value(families, "tokens", direction="output"), totals["tokens_out"]),
        "cost": (value(families, "cost_dollars") * 10**9, totals["cost_nano"]),
        "errors": (value(families, "upstream_errors"),
                   sum(n for code, n in live["codes"].items() if code.startswith("upstream_") and
                       code != "upstream_paused")),
        "codes": (families["pennygate_answers"].all("_total", "code"), live["codes"]),
        "since": (value(families, "decision_seconds", "_created"), live["since_s"]),
        "streams": (value(families, "open_streams", ""), stats["open_streams"]),
        "paused": (value(families, "paused", ""), stats["paused"]),
        "store": (value(families, "store_size_bytes", ""), stats["store"]["size_bytes"]),
        "models": (families["pennygate_breaker_open"].all("", "model"),
                   {model["name"]: model["breaker_open"] for model in stats["models"]}),
        "alerts": (value(families, "alerts_waiting", ""), stats["alerts_waiting"]),
    }
    pairs["refused by others"] = value(families, "refused", limit="(other)"), live["refused_others"]
    for name, n in live["refused"].items():
        pairs[f"refused by {name}"] = (value(families, "refused", limit=name), n)
    for one in stats["limits"]:
        unit, scale = ("dollars", 10**9) if one["unit"] == "cost" else (one["unit"], 1)
        for what in ("used", "reserved", "max"):
            shown = value(families, f"limit_{what}", "", limit=one["name"], unit=unit)
            pairs[f"{one['name']} {what}"] = (shown * scale, Decimal("Infinity") if one[what] is None else one[what])
    for family, key, scale in zip(HISTOGRAMS, ("decision_us", "first_byte_ms"), (10**6, 10**3)):
        shown = families[family]
        buckets = shown.all("_bucket", "le")
        below, counts = 0, []
        for bound in buckets:
            counts.append(buckets[bound] - below)
            below = buckets[bound]
        pairs[key] = ([Decimal(bound) * scale for bound in list(buckets)[:-1]], live[key]["up_to"][:-1])
        pairs[key + " counts"] = (counts, live[key]["n"])
        pairs[key + " sum"] = (shown.of("_sum") * scale, live[key]["sum"])
    return {name: both for name, both in pairs.items() if both[0] != both[1]}


def test_a_fresh_store_is_all_zeros(watched, mode):
    begun = int(time.time())
    families = watched(mode).families()
    assert zero(families)
    assert begun - 60 <= value(families, "answers", "_created", code="ok") <= time.time()
    assert value(families, "build", "_info", version="0.1") == 1
    assert families["pennygate_refused"].all("_total", "limit").keys() == {
        "visitor-day", "visitor-burst", "visitor-at-once", "site-day", "(other)"}
    assert 0 < value(families, "store_used_bytes", "") < value(families, "store_size_bytes", "")


def ask_all(server, model):
    """One of each: how each request was answered, by code."""
    seen = collections.Counter()

    def tell(answer):
        seen["ok" if answer.status == 200 else answer.code] += 1

    for n in range(4):
        tell(server.chat(source=f"127.0.5.{1 + n}"))
        tell(server.chat(source=f"127.0.5.{1 + n}", stream=True))
    for _ in range(5):
        tell(server.chat(source="127.0.5.9"))  # of which three fit
    for _ in range(2):
        tell(server.chat([{"role": "system", "content": "x"}], source="127.0.5.10"))
    tell(server.open("POST", "/v1/chat/completions", b"{", [("Content-Type", "application/json")],
                     source="127.0.5.11").answer())
    tell(server.open("POST", "/v1/chat/completions", b"{}", [("Content-Type", "text/plain")],
                     source="127.0.5.12").answer())
    tell(server.get("/nothing"))
    model.set(status=500)
    tell(server.chat(source="127.0.5.13"))
    model.reset()
    return seen


def test_after_use_the_figures_are_right_and_those_of_stats(watched, model, mode):
    """One request after the other reaches each of the processes in turn."""
    one = watched(mode, procs=3, limits={
        "visitor-day": limit("address", "calls", "day", 3), "spend": limit("everyone", "cost", "day", "$2.00"),
        "free": limit("everyone", "tokens", "day", "unlimited")})
    model.set(prompt_tokens=10, completion_tokens=40)
    seen = ask_all(one.server, model)
    assert seen == {"ok": 11, "address_limit": 2, "unsupported": 2, "bad_json": 1, "unsupported_media_type": 1,
                    "not_found": 1, "upstream_error": 1}
    families = one.settled()
    assert families["pennygate_answers"].all("_total", "code") == {
        code: seen[code] for code in families["pennygate_answers"].all("_total", "code")}
    assert value(families, "admitted") == 12
    assert value(families, "settled", kind="reported") == 11
    assert value(families, "upstream_errors") == 1
    assert families["pennygate_refused"].all("_total", "limit") == {
        "visitor-day": 2, "visitor-burst": 0, "visitor-at-once": 0, "site-day": 0, "spend": 0, "free": 0,
        "(other)": 0}
    # Whoever was not told before the meter was asked: all but the wrong type and the wrong path.
    assert value(families, "decision_seconds", "_count") == sum(seen.values()) - 2
    assert value(families, "first_byte_seconds", "_count") == seen["ok"]
    assert 0 < value(families, "decision_seconds", "_sum") < 60
    assert value(families, "cost_dollars") > 0
    assert value(families, "limit_used", "", limit="spend", unit="dollars") == value(families, "cost_dollars")
    assert same_as_stats(families, one.site.stats()) == {}


def test_much_at_once_is_counted_exactly(watched, model):
    one = watched(procs=4, server={"streams": 16}, limits={"budget": limit("everyone", "calls", "day", 60)})
    seen, lock = collections.Counter(), threading.Lock()

    def call(number):
        for _ in range(12):
            answer = one.server.chat(source=f"127.0.6.{1 + number}", stream=number % 2 == 1)
            with lock:
                seen["ok" if answer.status == 200 else answer.code] += 1

    callers = [threading.Thread(target=call, args=(n,)) for n in range(10)]
    for caller in callers:
        caller.start()
    while any(caller.is_alive() for caller in callers):
        one.families()  # whatever the moment, it can be read
    for caller in callers:
        caller.join()
    assert seen["ok"] == 60 and sum(seen.values()) == 120
    families = one.settled(decisions=120)
    shown = families["pennygate_answers"].all("_total", "code")
    assert {code: n for code, n in shown.items() if n} == seen
    assert value(families, "refused", limit="budget") == seen["site_limit"]
    assert value(families, "first_byte_seconds", "_count") == 60
    assert same_as_stats(families, one.site.stats()) == {}


def test_counters_never_fall_across_a_restart(watched, model, mode):
    one = watched(mode, procs=2, limits={"visitor-day": limit("address", "calls", "day", 3)})
    ask_all(one.server, model)
    before = one.settled(decisions=17)
    one.restart()
    after = one.families()
    assert counters(after) == counters(before)
    ask_all(one.server, model)
    later = one.settled(decisions=34)
    assert counters(later).keys() == counters(before).keys()
    assert all(counters(later)[sample] >= number for sample, number in counters(before).items())
    assert value(later, "admitted") > value(before, "admitted")


def test_a_request_that_waits_for_its_answer_is_open(watched, model):
    one = watched()
    model.set(chunks=400, gap_ms=50)
    call = one.server.begin(stream=True)
    call.wait_for(b"data: ")
    families = one.when(lambda f: value(f, "open_streams", "") == 1, "the open stream")
    assert value(families, "admitted") == 1
    assert value(families, "limit_reserved", "", limit="site-day", unit="calls") == 1
    assert value(families, "limit_used", "", limit="site-day", unit="calls") == 1
    assert value(families, "first_byte_seconds", "_count") == 1, "it is counted when it comes, not at the end"
    assert value(families, "answers", code="ok") == 0
    call.close()
    one.when(lambda f: value(f, "settled", kind="unknown") == 1 and value(f, "open_streams", "") == 0 and
             value(f, "limit_reserved", "", limit="site-day", unit="calls") == 0, "the settle")


def test_a_keys_own_limit_is_one_of_the_others(watched):
    one = watched()
    token = one.site.run("keys", "add", "ann", "--limit", "calls/day=1").split()[-1]
    headers = [("Authorization", f"Bearer {token}")]
    assert [one.server.chat(headers=headers).status for _ in range(3)] == [200, 429, 429]
    families = one.when(lambda f: value(f, "refused", limit="(other)") == 2, "the refusals")
    assert one.site.stats()["live"]["refused_others"] == 2
    assert value(families, "answers", code="key_limit") == 2
    assert b"ann" not in one.body()


def test_counters_never_fall_with_the_names_of_limits(watched):
    """One that is renamed is not counted among the others, nor taken from them when it is back."""
    one = watched(limits={"first": limit("address", "calls", "day", 0)})
    shown = {}
    for name in ("first", "second", "first"):
        one.site.limits.pop("first", None)
        one.site.limits.pop("second", None)
        one.site.limits[name] = limit("address", "calls", "day", 0)
        one.site.write()
        assert one.server.chat().status == 429
        seen = sum(shown.values()) + 1
        families = one.when(lambda f, n=seen: value(f, "answers", code="address_limit") == n, "the refusal")
        found = families["pennygate_refused"].all("_total", "limit")
        assert name in found and all(found[other] >= shown[other] for other in found if other in shown)
        shown.update((other, found[other]) for other in (name, "(other)"))
    assert shown == {"first": 2, "second": 1, "(other)": 0}


def test_a_new_board_is_told_by_all_counters_that_begin_anew(watched, model):
    """As after a boot; so that nobody takes it for thousands of errors at once."""
    one = watched()
    model.set(status=500)
    assert [one.server.chat().status for _ in range(2)] == [502, 502]
    one.when(lambda f: value(f, "upstream_errors") == 2, "the errors")
    one.site.run("maintain")
    begun = int(time.time())
    until(lambda: int(time.time()) > begun, 5, "a later second")
    one.restart(lambda: (one.site.store / "run/board").unlink())
    families = one.families()
    assert one.site.stats()["totals"]["upstream_errors"] == 2
    for family in families.values():
        fallen = [labels for suffix, labels, n in family.samples if suffix == "_created" and n <= begun]
        assert not fallen, family.name
    assert value(families, "upstream_errors") == 0


def test_paused_a_broken_model_and_a_dry_run(watched, model):
    one = watched(demo={"breaker-after": 1, "breaker-pause": "1h"}, limits={
        "trial": {**limit("address", "calls", "day", 1), "dry-run": "yes"}})
    assert [one.server.chat().status for _ in range(3)] == [200] * 3
    one.when(lambda f: value(f, "dry_run_refused_today", "", limit="trial") == 2, "the dry run")
    assert value(one.families(), "refused", limit="trial") == 0
    model.set(status=500)
    assert one.server.chat().status == 502
    one.when(lambda f: value(f, "breaker_open", "", model="demo") == 1, "the open breaker")
    one.site.run("pause")
    one.when(lambda f: value(f, "paused", "") == 1, "the pause")
    one.site.run("resume")
    one.when(lambda f: value(f, "paused", "") == 0, "the end of the pause")


def test_a_site_without_prices_has_no_cost(watched, model):
    one = watched(demo={"price-input": None, "price-output": None})
    assert one.server.chat().status == 200
    families = one.settled()
    assert families["pennygate_cost_dollars"].samples == []
    assert value(families, "tokens", direction="output") > 0


def test_a_store_ahead_of_the_clock_says_so(site):
    """And what is measured is measured on a clock that is not set."""
    place = site(init=False)
    shim = shutil.copy(ROOT / "build/clock-shim.so", place.directory)
    offset = place.directory / "offset"

    def put_ahead(ms):
        new = place.directory / "offset.new"
        new.write_text(str(ms), encoding="ascii")
        new.rename(offset)

    place.env = {"LD_PRELOAD": shim, "CLOCK_SHIM": str(offset)}
    put_ahead(7200000)
    one = Watched(place.init())
    assert one.server.chat().status == 200
    one.settled()
    put_ahead(3600000)
    families = one.when(lambda f: value(f, "store_clock_ahead_seconds", "") > 3000, "the step")
    assert value(families, "store_clock_ahead_seconds", "") <= 3600
    assert one.server.chat().status == 200
    families = one.when(lambda f: value(f, "decision_seconds", "_count") == 2, "both decisions")
    assert value(families, "decision_seconds", "_sum") < 60
    assert value(families, "first_byte_seconds", "_sum") < 60


def test_the_largest_configuration_can_be_read(watched, model):
    names = [f"{n:02}-a-name-that-has-31-letters--" for n in range(27)]
    one = watched(limits={name: limit("everyone", "cost", "day", "$1000000.00") for name in names},
                  models={f"m{n:02}-an-alias-of-31-letters.-_-": {} for n in range(15)})
    assert one.server.chat().status == 200
    families = one.settled()
    assert set(names) < families["pennygate_limit_max"].all("", "limit").keys()
    assert len(families["pennygate_breaker_open"].samples) == 16


def test_nobody_is_in_it(watched):
    one = watched(limits={"account-day": limit("account", "calls", "day", 1)},
                  options={"trusted-proxies": ["127.0.0.1"]})
    for address in ("192.0.2.77", "2001:db8::77"):
        assert one.server.chat("forty purple elephants", headers=[("X-Forwarded-For", address)]).status == 200
    one.settled()
    body = one.body()
    for secret in (b"192.0.2", b"2001:db8", b"127.0.0", b"practice-large", b"sk-practice", b"elephants", b"http"):
        assert secret not in body, secret


def test_it_is_for_the_owner_alone(watched):
    one = watched()
    for headers in ([], [("Authorization", "Basic " + base64.b64encode(b"owner:wrong").decode())]):
        answer = one.server.get("/metrics", headers=headers)
        assert answer.status == 401
        assert b"pennygate_admitted" not in answer.body


def test_the_manual_lists_all_families(watched):
    text = subprocess.run(["mandoc", "-T", "utf8", "gateway/pennygate-api.7"], cwd=ROOT, capture_output=True,
                          text=True, check=True).stdout
    listed = re.findall(r"^ +(pennygate_\w+) \((\w+)\)$", re.sub(".\b", "", text), re.M)
    assert listed == [(family.name, family.type) for family in watched().families().values()]
