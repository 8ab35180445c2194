"""What the owner is told by webhook: F14, and F46 as far as the owner is concerned. The webhook is
a small server of the test's own, which can be down, can refuse and can hang. No test waits for a
retry's real time: clock_shim.c moves the program's clock."""
import calendar
import contextlib
import http.server
import json
import os
import shutil
import signal
import threading
import time

import pytest

from harness import ROOT, Timer, limit, until

SHIM = ROOT / "build/clock-shim.so"
TOKEN = "hook-secret-0123456789"


class Hook:
    """A webhook: `got` are the bodies of all deliveries, `tries` those of all requests."""

    def __init__(self):
        self.status, self.hang = 200, False
        self.got, self.tries, self.headers = [], [], []
        self.release = threading.Event()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.tries.append(body)
                hook.headers.append(dict(self.headers))
                if hook.hang:
                    hook.release.wait(60)
                with contextlib.suppress(OSError):
                    self.send_response(hook.status)
                    self.end_headers()
                    if hook.status == 200:
                        hook.got.append(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/s3cret-path"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, n, seconds=10):
        until(lambda: len(self.got) >= n, seconds, f"{n} alerts, of which came {self.got}")
        return self.told()

    def told(self):
        """("site-day", 80) or ("bound_exceeded", "demo") each."""
        return [(one["limit"], one["percent"]) if one["event"] == "threshold" else
                (one["event"], one.get("model")) for one in self.got]

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hook():
    one = Hook()
    yield one
    one.close()


@pytest.fixture
def told(site, hook):
    """A site whose alerts go to the hook, and whose whole budget is `calls` a day."""

    def make(calls=10, alerts=None, **options):
        place = site(limits={"site-day": limit("everyone", "calls", "day", calls)}, init=False, **options)
        place.sections["alerts"] = {"url": hook.url, **(alerts or {})}
        place.write()
        place.offset = place.directory / "offset"
        shim = shutil.copy(SHIM, place.directory)  # where its user can read it
        place.env = {"LD_PRELOAD": shim, "CLOCK_SHIM": str(place.offset)}
        return place.init()

    return make


def forward(place, seconds):
    new = place.directory / "offset.new"
    new.write_text(str(seconds * 1000), encoding="ascii")
    new.chmod(0o644)
    new.rename(place.offset)


def test_f14_one_alert_per_threshold_over_all_processes(told, hook):
    place = told()
    server = place.start(procs=2)
    pids = {pid for _ in range(10) if server.chat().status == 200 for pid in server.gateways()}
    assert len(pids) == 2
    assert [server.chat().code for _ in range(10)] == ["site_limit"] * 10
    hook.wait(2)
    place.run("maintain")  # has it delivered whatever else there may be
    assert sorted(hook.told()) == [("site-day", 80), ("site-day", 100)]
    assert hook.tries == hook.got


def test_what_is_told(told, hook):
    place = told(calls=5, alerts={"at": [80]})
    token = place.directory / "token"
    token.write_text(TOKEN + "\n", encoding="ascii")
    token.chmod(0o600)
    place.own(token)
    place.sections["alerts"]["token-file"] = token
    place.write()
    server = place.start()
    assert all(server.chat().status == 200 for _ in range(4))
    hook.wait(1)
    body = hook.got[0]
    assert {**body, "time": ""} == {
        "event": "threshold", "limit": "site-day", "percent": 80, "time": "",
        "text": "Pennygate: limit site-day has reached 80 % of its maximum.",
        "content": "Pennygate: limit site-day has reached 80 % of its maximum."}
    assert abs(calendar.timegm(time.strptime(body["time"], "%Y-%m-%dT%H:%M:%SZ")) - time.time()) < 60
    assert hook.headers[0]["Authorization"] == f"Bearer {TOKEN}"
    until(lambda: "event=alert_delivered kind=threshold name=site-day attempts=1" in server.log())
    assert TOKEN not in server.log() and "s3cret" not in server.log()


def test_what_a_call_can_cost_at_most_is_no_use(site, hook, model):
    """One large request must not bring up the alert that hides the real one."""
    place = site(limits={"spend": limit("everyone", "tokens", "day", 10000)},
                 demo={"max-output-tokens": 6000, "overhead-per-call": 0, "overhead-per-message": 0},
                 init=False)
    place.sections["alerts"] = {"url": hook.url}
    place.write()
    server = place.init().start("cgi")
    model.set(chunks=2, prompt_tokens=5, completion_tokens=5)
    assert server.chat("x" * 10).status == 200
    place.run("maintain")
    assert (place.used("spend"), hook.told()) == (10, [])
    model.set(prompt_tokens=5, completion_tokens=3000)
    assert [server.chat("x" * 10).status for _ in range(3)] == [200, 200, 429]
    place.run("maintain")
    assert (place.used("spend"), hook.told()) == (6020, [("spend", 100)])


def test_none_is_posted_without_a_url_and_the_next_one_as_soon_as_there_is_one(told, hook):
    """What was reached before is not told late: the owner's pages have shown it."""
    place = told(alerts={"url": None})
    server = place.start()
    assert all(server.chat().status == 200 for _ in range(8))
    until(lambda: place.day()["settled"] == 8)
    assert "to be delivered" not in place.run("check")
    place.sections["alerts"] = {"url": hook.url}
    place.write()
    assert [server.chat().status for _ in range(2)] == [200, 200]
    assert hook.wait(1) == [("site-day", 100)]
    assert hook.tries == hook.got


def test_it_is_retried_until_it_is_delivered(told, hook):
    place = told(calls=5, alerts={"at": [80]})
    server = place.start()
    hook.status = 500
    assert all(server.chat().status == 200 for _ in range(4))
    line = "event=alert_not_delivered kind=threshold name=site-day attempts=%d status=500"
    until(lambda: line % 1 in server.log(), 10, "the first try")
    forward(place, 35)
    until(lambda: line % 2 in server.log(), 15, "the second try")
    hook.status = 200
    forward(place, 60)
    place.run("maintain")
    assert hook.told() == [], "the second pause is twice the first"
    forward(place, 110)
    assert hook.wait(1, 15) == [("site-day", 80)]
    forward(place, 10000)
    place.run("maintain")
    assert len(hook.tries) == 3


def test_another_process_delivers_what_a_killed_one_was_delivering(told, hook):
    place = told(calls=5, alerts={"at": [80]})
    server = place.start("external")
    hook.hang = True
    assert all(server.chat().status == 200 for _ in range(4))
    until(lambda: len(hook.tries) == 1, 10, "the first try")
    os.kill(server.gateway.pid, signal.SIGKILL)
    server.gateway.wait(10)
    hook.hang = False
    place.socket.unlink()
    server.serve()
    forward(place, 200)
    assert hook.wait(1, 15) == [("site-day", 80)]


def test_a_hook_that_hangs_delays_nobody(told, hook):
    """Neither answers, nor a changed configuration, nor the end of the process."""
    place = told(calls=5, alerts={"timeout": "60s"})
    server = place.start("external")
    hook.hang = True
    assert all(server.chat().status == 200 for _ in range(4))
    until(lambda: len(hook.tries) == 1, 10, "the try that hangs")
    timer = Timer()
    assert server.chat().status == 200
    assert server.chat().code == "site_limit"
    place.limits["site-day"]["max"] = 6
    place.write()
    assert server.chat().status == 200
    place.run("pause")
    assert server.chat().code == "paused"
    assert timer.within(5)
    timer = Timer()
    server.gateway.terminate()
    assert server.gateway.wait(30) == 0
    assert timer.within(5)
    assert "did not let go" not in server.log()
    hook.hang = False
    hook.release.set()
    hook.got.clear()
    place.run("maintain")  # what was being posted is given back at once
    assert ("site-day", 80) in hook.told()


def test_f42_a_meter_that_is_unavailable_is_told_once_an_hour(told, hook):
    place = told()
    server = place.start(procs=2)
    assert all(server.chat().status == 200 for _ in range(4))
    hook.status = 503
    aside = place.store / "aside.mdb"
    place.data_file.rename(aside)
    for _ in range(20):
        assert server.chat().status == 503
    until(lambda: "kind=meter_unavailable name=- attempts=1 status=503" in server.log(), 10, "the first try")
    hook.status = 200
    assert [one["event"] for one in hook.tries] == ["meter_unavailable"]
    assert set(hook.tries[0]) == {"event", "time", "text", "content"}
    for pid in server.gateways():  # who could not tell it leaves it to the next: here by ending
        os.kill(pid, signal.SIGTERM)
    until(lambda: server.chat().status == 503 and len(hook.got) == 1, 20, "the alert by another process")
    for _ in range(10):
        server.chat()
    assert place.run("maintain", check=False).returncode == 1
    assert [one["event"] for one in hook.got] == ["meter_unavailable"]
    aside.rename(place.data_file)
    until(lambda: server.chat().status == 200, 10, "service")


def test_cgi_tells_by_maintain(told, hook):
    place = told()
    server = place.start("cgi")
    assert all(server.chat().status == 200 for _ in range(9))
    assert hook.tries == []
    hook.status = 404
    place.run("maintain")
    place.run("maintain")
    assert len(hook.tries) == 1
    hook.status = 200
    forward(place, 31)
    place.run("maintain")
    place.run("maintain")
    assert hook.told() == [("site-day", 80)]
    assert server.chat().status == 200
    place.run("maintain")
    assert hook.told() == [("site-day", 80), ("site-day", 100)]


def test_a_run_of_maintain_delivers_five_at_most(told, hook):
    place = told(alerts={"at": [10, 20, 30, 40, 50, 60, 70, 80]})
    server = place.start("cgi")
    assert all(server.chat().status == 200 for _ in range(8))
    place.run("maintain")
    assert [percent for _, percent in hook.told()] == [10, 20, 30, 40, 50]
    assert "note 3 alerts wait to be delivered" in " ".join(place.run("check").split())
    place.run("maintain")
    assert "to be delivered" not in place.run("check")
    assert [percent for _, percent in hook.told()] == [10, 20, 30, 40, 50, 60, 70, 80]


def test_maintain_tells_of_a_meter_that_is_unavailable(told, hook):
    place = told()
    aside = place.store / "aside.mdb"
    place.data_file.rename(aside)
    hook.status = 500
    failed = place.run("maintain", check=False)
    assert failed.returncode == 1
    assert "data.mdb" in failed.stderr or str(place.store) in failed.stderr
    hook.status = 200
    for _ in range(3):
        assert place.run("maintain", check=False).returncode == 1
    assert [one["event"] for one in hook.got] == ["meter_unavailable"]
    assert len(hook.tries) == 2, "what was not delivered is tried again with the next run"
    aside.rename(place.data_file)
    place.run("maintain")
    assert len(hook.tries) == 2


def test_maintain_ends_although_the_hook_hangs(told, hook):
    place = told(calls=1, alerts={"timeout": "1s"})
    server = place.start("cgi")
    assert server.chat().status == 200
    hook.hang = True
    timer = Timer()
    place.run("maintain")
    assert timer.within(6)
    assert len(hook.tries) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_f46_an_api_that_refuses_us_is_told_to_the_owner_alone(told, hook, model, status):
    place = told()
    server = place.start(procs=2)
    model.set(status=status, error_body='{"error":{"message":"bad key sk-practice-0123456789",'
                                     '"code":"invalid_api_key"}}')
    answers = [server.chat() for _ in range(6 if status == 401 else 3)]
    assert hook.wait(1) == [("upstream_refused", "demo")]
    assert {answer.status for answer in answers} == {503}
    told_to = {"callers": b"".join(answer.body for answer in answers).decode(), "owner": json.dumps(hook.got)}
    for who, text in told_to.items():
        for secret in ("sk-practice", "bad key", "invalid_api_key", "practice-large", "127.0.0.1"):
            assert secret not in text, f"{secret} to {who}"
    place.run("maintain")
    assert len(hook.got) == 1


def test_a_breaker_that_opens_is_told(told, hook, model):
    place = told(calls=1000)
    server = place.start(procs=2)
    model.set(status=500)
    until(lambda: server.chat().code == "upstream_paused", 10, "the breaker")
    assert hook.wait(1) == [("breaker_open", "demo")]
    assert [server.chat().code for _ in range(4)] == ["upstream_paused"] * 4
    place.run("maintain")
    assert len(hook.got) == 1


def test_more_tokens_than_reserved_are_told(told, hook, model):
    place = told(calls=1000)
    server = place.start()
    model.set(prompt_tokens=3000)
    for _ in range(3):
        server.chat("x" * 1000)
    assert hook.wait(1) == [("bound_exceeded", "demo")]
    place.run("maintain")
    assert len(hook.got) == 1
