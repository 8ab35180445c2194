"""The log: what a request's line says, that a program can read it, and that a flood of requests
which are turned away cannot make it grow."""
import calendar
import collections
import concurrent.futures
import json
import re
import shutil
import time

import pytest

from direct import cgi
from harness import CHAT, MODES, ROOT, WIDE, limit, until

WORDS = ["time", "level", "id", "what", "verdict", "subject", "code", "model", "limit", "usage", "in", "out",
         "decision_us", "ms", "first_ms", "calls"]
NUMBERS = ["in", "out", "decision_us", "ms", "first_ms", "calls"]
ONE = {**WIDE, "site-day": limit("everyone", "calls", "day", 1)}


def no_duplicates(pairs):
    found = dict(pairs)
    assert len(found) == len(pairs), pairs
    return found


def words_of(line):
    """The words of a request's line in logfmt."""
    assert line.startswith("pennygate: time="), line
    return no_duplicates([tuple(word.split("=", 1)) for word in line.removeprefix("pennygate: ").split(" ")])


def object_of(line):
    return json.loads(line, object_pairs_hook=no_duplicates)


def whole_lines(server):
    return server.log().split("\n")[:-1]


def requests(server, form="logfmt"):
    """The lines of requests, as dictionaries."""
    if form == "json":
        return [one for one in objects(server) if "id" in one]
    return [words_of(line) for line in whole_lines(server) if " id=chatcmpl-" in line]


def objects(server):
    return [object_of(line) for line in whole_lines(server) if line.startswith("{")]


def line_of(server, answer, form="logfmt"):
    """The line of the request that got this answer; it is written after it."""
    name = answer.header("X-Request-Id")
    return until(lambda: next((one for one in requests(server, form) if one["id"] == name), None), 10, "its line")


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_what_a_line_says(gate, mode, form):
    server = gate(mode, limits=ONE, log={"format": form})
    before = int(time.time())
    answers = {"admitted": server.chat(), "refused": server.chat(), "failed": server.get("/nothing"),
               "-": server.get("/status")}
    assert [one.status for one in answers.values()] == [200, 429, 404, 200]
    lines = {verdict: line_of(server, answer, form) for verdict, answer in answers.items()}
    for verdict, line in lines.items():
        assert list(line) == WORDS and line["verdict"] == verdict and line["level"] == "info"
        at = time.strptime(line["time"], "%Y-%m-%dT%H:%M:%SZ")
        assert before <= calendar.timegm(at) <= time.time()
        if form == "json":
            assert [name for name in WORDS if isinstance(line[name], int)] == NUMBERS
        for name in NUMBERS:
            line[name] = int(line[name])
    admitted, refused = lines["admitted"], lines["refused"]
    assert (admitted["code"], admitted["model"], admitted["usage"], admitted["calls"]) == ("ok", "demo", "reported", 1)
    assert admitted["in"] > 0 and admitted["out"] > 0 and admitted["ms"] >= admitted["first_ms"] >= 0
    assert re.fullmatch("[0-9a-f]{16}", admitted["subject"]) and admitted["subject"] == refused["subject"]
    assert (refused["code"], refused["limit"], refused["usage"]) == ("site_limit", "site-day", "none")
    assert (admitted["limit"], refused["calls"], refused["first_ms"]) == ("-", 0, -1)
    assert admitted["decision_us"] > 0 and refused["decision_us"] > 0 and lines["failed"]["decision_us"] == -1
    assert (lines["failed"]["code"], lines["failed"]["subject"]) == ("not_found", "-")
    assert (lines["-"]["code"], lines["-"]["limit"]) == ("ok", "-")
    assert [line["what"] for line in lines.values()] == ["chat", "chat", "-", "status"]


def test_a_line_says_what_was_asked(gate):
    """In words of ours; nothing of what the caller has written."""
    server = gate(log={"rate": 1000})
    paths = {"/v1/models": "models", "/status": "status", "/": "page", "": "page", "/widget.js": "widget",
             "/dashboard": "owner", "/dashboard.json": "owner", "/dashboard.css": "owner", "/metrics": "owner",
             "/what=chat": "-", CHAT: "-"}
    for path, what in paths.items():
        assert line_of(server, server.get(path))["what"] == what, path
    asked = {("OPTIONS", "/status"): "options", ("POST", "/v1/self-test"): "self-test", ("PUT", CHAT): "-",
             ("POST", CHAT): "chat"}
    for (method, path), what in asked.items():
        answer = server.open(method, path, b"{", [("Origin", f"http://127.0.0.1:{server.port}")]).answer()
        assert line_of(server, answer)["what"] == what, path


def test_the_manual_explains_every_word():
    page = (ROOT / "gateway/pennygate.8").read_text(encoding="utf-8")
    section = page.partition(".Ss The line of a request\n")[2].partition("\n.S")[0]
    explained = [name for names in re.findall(r"^\.It Cm (.*)$", section, re.M) for name in names.split(" , ")]
    written = re.findall(r"(\w+)=%", (ROOT / "gateway/line.c").read_text(encoding="utf-8"))
    assert sorted(explained) == sorted(written)
    assert sorted(written) == sorted([*WORDS[2:], "left_out"])


def test_events_and_complaints_are_objects_too(gate, model):
    server = gate(log={"format": "json"}, demo={"breaker-after": 1})
    model.set(status=500)
    line_of(server, server.chat(), "json")
    event = until(lambda: next((one for one in objects(server) if one.get("event") == "breaker_open"), None),
                  5, "the event, which comes with the settle")
    found = objects(server)
    assert event["level"] == "warning" and event["model"] == "demo" and event["seconds"] == 30
    assert "message" not in event
    complaint = next(one for one in found if one["level"] == "error")
    assert complaint["message"].startswith("model demo: the API answered 500")
    assert list(complaint) == ["time", "level", "message"]


def test_every_line_is_an_object(gate):
    """Also the one about a configuration that has become a fault, with whatever it quotes."""
    server = gate(log={"format": "json"})
    assert server.chat().status == 200
    server.site.write(server.site.text() + "\"}level=x a=\\b\n")
    assert server.chat().status == 503
    told = until(lambda: [one for one in objects(server) if "configuration" in one.get("message", "")], 10, "the fault")
    assert told[0]["level"] == "error"
    assert all(line.startswith("{") for line in whole_lines(server) if "level" in line)


class Flood:
    """Requests that are refused, from many at once; what became of all of them in the log. Seconds
    are those of the clock that the processes count them by, which the time stamps' need not be."""

    def __init__(self, server, rate):
        self.server, self.rate, self.sent = server, rate, 0
        self.begun = int(time.monotonic())

    def send(self, n, at_once=8):
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            answers = list(pool.map(lambda _: self.server.chat(), range(n)))
        self.sent += n
        return collections.Counter(answer.status for answer in answers)

    def lines(self):
        return [line for line in requests(self.server) if line["verdict"] != "admitted"]

    def told(self):
        """Requests of which there is a line, or that a line of any kind counts."""
        return (sum(line["verdict"] != "admitted" for line in requests(self.server)) +
                sum(map(int, re.findall(r" left_out=(\d+)", self.server.log()))))

    def ends(self):
        """One more in a later second has its line, and tells what was left out before it. What is
        answered may still be on its way to being left out, so perhaps not the first one does."""
        def one_more():
            second = int(time.monotonic())
            until(lambda: int(time.monotonic()) > second, 5, "the next second")
            line_of(self.server, self.server.chat())
            self.sent += 1
            return self.told() == self.sent
        until(one_more, 60, "the count of all")

    def assert_bounded(self):
        seconds = int(time.monotonic()) - self.begun + 1
        assert len(self.lines()) <= self.rate * seconds


@pytest.mark.parametrize("mode", MODES)
def test_a_flood_is_bounded_over_all_processes_and_counted(site, mode):
    rate = 5
    server = site(limits=ONE, log={"rate": rate}).start(mode, procs=3)
    assert server.chat().status == 200
    flood = Flood(server, rate)
    assert flood.send(60 if mode == "cgi" else 400) == {429: flood.sent}
    assert len(flood.lines()) < flood.sent, "none was left out"
    flood.ends()
    flood.assert_bounded()
    if mode == "spawned":
        assert len(server.gateways()) == 3


def test_an_admitted_request_has_its_line_and_tells_what_was_left_out(gate):
    server = gate(procs=2, log={"rate": 1}, limits={"visitor-day": limit("address", "calls", "day", 10)})
    flood = Flood(server, 1)
    for _ in range(10):
        assert server.chat().status == 200
    assert flood.send(50) == {429: 50}
    answers = [server.chat(source=f"127.0.0.{n}") for n in range(2, 12)]
    assert [answer.status for answer in answers] == [200] * 10
    lines = [line_of(server, answer) for answer in answers]
    assert {line["verdict"] for line in lines} == {"admitted"}
    until(lambda: sum(line["verdict"] == "admitted" for line in requests(server)) == 20, 10, "the first ten lines")
    assert any(int(line.get("left_out", 0)) > 0 for line in requests(server) if line["verdict"] == "admitted")
    flood.ends()
    flood.assert_bounded()


def test_without_a_store_a_process_keeps_the_bound_by_itself(gate):
    server = gate(log={"rate": 2})
    server.site.data_file.rename(server.site.store / "away")
    flood = Flood(server, 2)
    assert flood.send(60) == {503: 60}
    flood.ends()
    flood.assert_bounded()


@pytest.mark.parametrize("store", [True, False])
def test_who_leaves_tells_what_was_left_out(gate, store):
    """After the end of a flood perhaps nobody comes whose line could."""
    server = gate(limits=ONE, log={"rate": 2})
    assert server.chat().status == 200
    if not store:
        server.site.data_file.rename(server.site.store / "away")
    flood = Flood(server, 2)
    flood.send(60)
    server.stop()
    assert flood.told() == flood.sent


def test_maintain_tells_syslog_what_was_left_out(site):
    """And leaves it to the next line where that is in another place than what maintain writes."""
    place = site(limits=ONE, log={"rate": 1})
    server = place.start("cgi")
    assert server.chat().status == 200
    for target in ("stderr", "syslog"):
        place.log = {"rate": 1, "target": target}
        place.write()
        flood = Flood(server, 1)
        flood.send(30)
        server.at_rest()
        assert place.run("maintain") == ""
        place.log = {"rate": 1000, "target": "stderr"}
        place.write()
        line = line_of(server, server.chat())
        assert (int(line.get("left_out", 0)) > 0) == (target == "stderr"), line


def test_clocks_that_differ_do_not_make_more_seconds(site):
    """Of two processes in turn each would begin a second that the other one has ended."""
    place = site(limits={"visitor-day": limit("address", "calls", "day", 0)}, log={"rate": 1})
    shim = shutil.copy(ROOT / "build/clock-shim.so", place.directory)
    offsets = [place.directory / name for name in ("one", "other")]
    for offset, ms in zip(offsets, (0, 3600000)):
        offset.write_text(str(ms), encoding="ascii")
    begun, lines = int(time.monotonic()), 0
    for turn in range(60):
        answer, log = cgi(place, environment={"LD_PRELOAD": str(shim), "CLOCK_SHIM": str(offsets[turn % 2])})
        assert answer.status == 429
        lines += log.count("verdict=")
    assert 0 < lines <= int(time.monotonic()) - begun + 1


@pytest.mark.parametrize("broken", ["store", "configuration"])
def test_a_cgi_process_that_cannot_count_says_why_in_one_line(site, broken):
    place = site(log={"rate": 5})
    if broken == "store":
        place.store.rename(place.store.with_name("away"))
    else:
        place.write(place.text() + "nonsense")
    for _ in range(3):
        answer, log = cgi(place)
        assert answer.status == 503
        assert re.fullmatch(rf"pennygate: time=\S+ level=error .*{broken}.*\n", log), log


def test_the_bound_changes_with_the_configuration(gate):
    """Without a new process, and so without a pause."""
    server = gate(limits=ONE, log={"rate": 1})
    assert server.chat().status == 200
    pids = server.gateways()
    server.site.log = {"rate": 1000}
    server.site.write()
    answers = [server.chat() for _ in range(20)]
    for answer in answers:
        line_of(server, answer)
    assert server.gateways() == pids
