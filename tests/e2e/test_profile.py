"""What a profile makes of a process: its threads, the streams that it admits, the stacks they need."""
import base64
import contextlib
import os
import re

import pytest

from harness import CHAT, SANITIZED, limit, until

STREAMS = {"router": 4, "board": 8, "vps": 32}
SAID_NO = 2  # workers beside those of the streams
# The sanitizers' frames are several times as large as those that stacks are measured for.
ROOM = {"stack": "1M"} if SANITIZED else {}


def threads(server):
    return len(os.listdir(f"/proc/{server.gateway.pid}/task"))


@contextlib.contextmanager
def streaming(server, n):
    """n streams, each of which has got something."""
    calls = [server.begin(stream=True) for _ in range(n)]
    for call in calls:
        call.wait_for(b"data: ")
    yield calls
    for call in calls:
        call.close()


@pytest.mark.parametrize("profile", STREAMS)
def test_a_process_has_the_streams_of_its_profile_and_two_threads_more(site, model, profile):
    streams = STREAMS[profile]
    place = site(server={"profile": profile, **ROOM})
    server = place.start("external")
    until(lambda: threads(server) == streams + SAID_NO + 1, 5, "the workers, beside the one that accepts")
    assert f"profile = {profile}" in place.run("check")
    model.set(gap_ms=20, chunks=5000)
    with streaming(server, streams) as held:
        answer = server.chat()
        assert (answer.status, answer.code) == (503, "busy")
        assert server.get("/status").json["code"] == "busy"
        assert model.stats()["open"] == streams
        assert threads(server) == streams + SAID_NO + 3, "and the one that writes, and libcurl's"
        held.pop().close()
        until(lambda: server.get("/status").json["available"], 5, "a free place")


def test_a_change_of_the_profile_is_taken_up(site, model):
    place = site(server={"profile": "router", **ROOM})
    server = place.start("external")

    def threads_after_a_call():
        assert server.chat().status in (200, 503)
        return threads(server)
    before = threads_after_a_call()
    place.server["profile"] = "board"
    place.write()
    until(lambda: threads_after_a_call() - before == STREAMS["board"] - STREAMS["router"], 10, "the new threads")
    assert server.chat().status == 200


# ---- stacks ----

STACK_KIB = 64  # of profile router, the least that can be set
TOUCHED_KIB = STACK_KIB // 2  # what is left is for 32 bits and other C libraries: config_options.c
DEEPEST_BODY = 16  # REQUEST_DEPTH_MAX


def stacks_kib(pid):
    """How much of each worker's stack has ever been touched, the thread's own data included."""
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", file.read(), flags=re.M)
    found, guard = [], None
    for part in parts:
        begin, end, mode = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", part).groups() if part else ("", "", "")
        size = (int(end, 16) - int(begin, 16)) // 1024 if part else 0
        # The guard counts as a part of the stack, or not.
        if mode == "rw-p" and begin == guard and STACK_KIB - 8 <= size <= STACK_KIB:
            found.append(int(re.search(r"^Rss: +(\d+)", part, re.M)[1]))
        guard = end if mode == "---p" else None
    return found


@pytest.fixture
def busy_site(site, model):
    """With all that makes a request's way longer: 16 windows, other models, transcripts."""
    window = iter(range(10, 30))
    place = site(server={"profile": "router"}, options={"trusted-proxies": ["127.0.0.1"]}, limits={
        f"{per}-{unit}": limit(per, unit, f"{next(window)}h", 10**6)
        for per in ("address", "visitor", "everyone", "anonymous") for unit in ("calls", "tokens", "cost")},
        models={"claude": {"provider": "anthropic"},
                "absent": {"url": "http://127.0.0.1:9/v1", "fallback": "demo"}})
    place.sections["transcripts"] = {"keep": "yes"}
    place.write()
    return place


def ask_everything(server, owner, model):
    """Each several times, so that every worker has a turn of most."""
    for model_name in ("demo", "claude", "absent"):
        for stream in (False, True) * 4:
            assert server.chat(stream=stream, fields={"model": model_name}).status in (200, 502)
    model.set(status=500)
    for stream in (False, True) * 4:
        server.chat(stream=stream)
    for depth in (4, DEEPEST_BODY - 1, DEEPEST_BODY, 2000):
        for _ in range(8):
            server.open("POST", CHAT, b'{"messages":' + b"[" * depth + b"]" * depth + b"}",
                        [("Content-Type", "application/json")]).answer()
    many = [("X-Forwarded-For", ", ".join(["192.0.2.1"] * 60)), ("Cookie", "a=b; " * 200)]
    for path in ("/", "/widget.js", "/v1/models", "/status", "/dashboard", "/dashboard.json", "/metrics", "/no"):
        for headers in ([], many, owner):
            for _ in range(4):
                server.get(path, headers=headers)


@pytest.mark.skipif(os.geteuid() != 0 or SANITIZED, reason="the program's maps are root's to see; plain frames")
def test_the_smallest_stack_is_twice_what_is_touched(busy_site, model):
    secret = max(busy_site.run("dashboard-password").split(), key=len)
    owner = [("Authorization", "Basic " + base64.b64encode(f"owner:{secret}".encode()).decode())]
    server = busy_site.start("external")
    assert server.get("/dashboard", headers=owner).status == 200
    ask_everything(server, owner, model)
    right = busy_site.text()
    for wrong in ("", "limit later { per = everyone unit = calls window = day max = 9 }\n", "nonsense"):
        busy_site.write(right + wrong)  # each is read by a worker
        for _ in range(8):
            server.get("/status")
    touched = stacks_kib(server.gateway.pid)
    assert len(touched) == STREAMS["router"] + SAID_NO
    print("touched, KiB:", *touched)
    assert 8 < max(touched) <= TOUCHED_KIB, touched
