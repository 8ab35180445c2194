"""GET /status says what the next POST will hear, and nothing that no answer would say."""
import concurrent.futures
import re
import threading

import pytest

from examples import account
from harness import until, limit

CALLS = limit("address", "calls", "day", 3)


def status(server, headers=(), **options):
    return server.open("GET", "/status", b"", headers, **options).answer()


def agree(server, headers=(), **options):
    """The status, after making sure that the smallest request then hears the same."""
    answer = status(server, headers, **options)
    assert answer.status == 200
    said = answer.json
    next_one = server.chat("x", headers=headers, **options)
    assert said["available"] == (next_one.status == 200), (said, next_one.body)
    if not said["available"]:
        assert said["code"] == next_one.code
        assert said["message"] == next_one.error["message"]
        wait = next_one.header("Retry-After")
        assert abs(said["retry_after"] - int(wait)) <= 60 if wait else said["retry_after"] is None
    return said


def test_f5_the_number_shown_is_the_number_enforced(gate, mode):
    """Status, headers, statistics and the point of refusal agree, call by call."""
    server = gate(mode, limits={"visitor-day": CALLS, "visitor-burst": None})
    for left in (3, 2, 1):
        said = status(server).json
        day = next(one for one in said["limits"] if one["name"] == "visitor-day")
        assert (said["available"], day["remaining"], day["max"]) == (True, left, 3)
        assert (day["more_in_s"] is None) == (left == 3)
        answer = server.chat("x")
        assert answer.status == 200
        assert answer.header("X-RateLimit-Remaining") == str(left - 1)
        assert server.site.used("site-day") == 4 - left
    said = agree(server)
    assert (said["available"], said["code"]) == (False, "address_limit")
    assert said["limits"][0]["remaining"] == 0
    assert 0 < said["limits"][0]["more_in_s"] <= 86400
    assert server.site.day()["admitted"] == 3


def test_its_form(gate, mode):
    server = gate(mode, models={"other": {"model": "practice-small"}},
                  request={"max-message-chars": 99, "max-input-chars": 1000, "max-history": 7})
    answer = status(server)
    assert answer.header("Content-Type") == "application/json"
    assert answer.header("Cache-Control") == "no-store"
    assert set(answer.json) == {"available", "code", "message", "retry_after", "limits", "input",
                                "model", "models"}
    assert answer.json["input"] == {"max_message_chars": 99, "max_input_chars": 1000, "max_history": 7}
    assert (answer.json["model"], answer.json["models"]) == ("demo", ["demo", "other"])
    assert [set(one) for one in answer.json["limits"]] == [
        {"name", "remaining", "max", "window_s", "more_in_s"}] * len(answer.json["limits"])
    head = server.open("HEAD", "/status")
    assert head.head() == 200
    head.close()


def test_it_spends_and_writes_nothing(gate, model, mode):
    server = gate(mode, limits={"visitor-day": CALLS})
    assert server.chat().status == 200
    server.site.settled()
    before = server.site.data()
    for _ in range(20):
        assert status(server).json["available"] is True
    assert server.site.data() == before
    assert model.count == 1


@pytest.mark.parametrize("name, options", [
    ("site-day", limit("everyone", "calls", "day", 2)),
    ("more", limit("anonymous", "calls", "1h", 2)),
    ("more", limit("everyone", "tokens", "day", 500)),
    ("more", limit("address", "tokens", "1h", 500)),
    ("more", limit("everyone", "cost", "day", "$0.0006")),
    ("more", limit("visitor", "calls", "10m", 2)),
    ("visitor-burst", limit("address", "calls", "20s", 2)),
    ("more", limit("address", "calls", "day", 0)),
])
def test_it_agrees_with_the_next_request_until_all_is_used(gate, model, name, options):
    model.set(prompt_tokens=81, completion_tokens=100)
    server = gate(limits={name: options})
    for _ in range(6):
        said = agree(server)
        if not said["available"]:
            break
        server.site.settled()
    else:
        raise AssertionError("nothing was ever refused")
    assert agree(server)["available"] is False


@pytest.mark.parametrize("who, unit, window, maximum", [
    ("account", "calls", "day", 2), ("account", "tokens", "1h", 500), ("account", "cost", "month", "$0.0006"),
    ("key", "calls", "1h", 2), ("key", "tokens", "day", 500), ("key", "cost", "day", "$0.0006"),
    ("a key's own", "calls", "3h", 2), ("a key's own", "tokens", "day", 500),
    ("bypass", "calls", "1h", 2), ("bypass", "tokens", "day", 500), ("bypass", "cost", "day", "$0.0006")])
def test_it_agrees_for_callers_who_show_what_they_are(site, model, who, unit, window, maximum):
    """Also by limits that only the store knows; and meanwhile it is available to others."""
    model.set(prompt_tokens=81, completion_tokens=100)
    place = site()
    if who in ("account", "key"):
        place.limits["more"] = limit(who, unit, window, maximum)
        place.write()
    if who == "account":
        headers = [account(place, "ann")]
    elif who == "bypass":
        secret = place.directory / "bypass"
        secret.write_text("the-owners-own-0123456789", encoding="ascii")
        secret.chmod(0o600)
        place.own(secret)
        place.sections["bypass"] = {"secret-file": secret, "unit": unit, "window": window, "max": maximum}
        place.write()
        headers = [("X-Pennygate-Bypass", "the-owners-own-0123456789")]
    else:
        own = ["--limit", f"{unit}/{window}={maximum}"] if who == "a key's own" else []
        headers = [("Authorization", "Bearer " + re.search(r"pg_[\w-]+", place.run("keys", "add", "ann", *own))[0])]
    server = place.start()
    for admitted in range(6):
        said = agree(server, headers)
        if not said["available"]:
            break
        place.settled()
    assert 1 <= admitted == model.count <= 3
    assert said["code"] == ("key" if "key" in who else who) + "_limit"
    assert agree(server, headers)["available"] is False
    assert agree(server)["available"] is True


def test_nothing_leaks(gate):
    """Invariant 8: of what is not the caller's own calls only yes or no, and the minute."""
    server = gate(limits={"site-day": limit("everyone", "calls", "day", 1),
                          "anon": limit("anonymous", "calls", "day", 50),
                          "spend": limit("everyone", "cost", "day", "$7.77"),
                          "words": limit("address", "tokens", "day", 54321)})
    assert server.chat().status == 200
    said = status(server)
    assert said.json["code"] == "site_limit"
    assert said.json["retry_after"] % 60 == 0
    assert {one["name"] for one in said.json["limits"]} == {"visitor-day", "visitor-burst"}
    for secret in (b"practice", b"7.77", b"54321", b"spend", b"words", b"anon", b"price"):
        assert secret not in said.body


def test_a_site_that_cannot_serve_says_why(gate, model):
    server = gate()
    place = server.site
    place.run("pause")
    assert agree(server)["code"] == "paused"
    place.run("resume")
    assert agree(server)["available"] is True
    away = place.directory / "away"
    place.store.rename(away)
    said = agree(server)
    assert said["code"] == "meter_unavailable" and said["limits"] == []
    away.rename(place.store)
    until(lambda: status(server).json["available"], 10, "the store's return")
    assert agree(server)["available"] is True
    right = place.text()
    place.write(right + "nonsense")
    assert agree(server)["code"] == "configuration"
    place.write(right)
    until(lambda: status(server).json["available"], 10, "the configuration's return")
    assert agree(server)["available"] is True


def test_a_busy_site_says_so(gate, model, mode):
    server = gate(mode, server={"streams": 1})
    model.set(gap_ms=50, chunks=200)
    held = server.begin(stream=True, parts=True)
    held.wait_for(b"data: ")
    assert agree(server)["code"] == "busy"
    held.close()
    until(lambda: status(server).json["available"], 10, "the place to be free again")


def test_a_caller_with_a_call_in_progress_hears_it(gate, model, mode):
    server = gate(mode, limits={"visitor-at-once": limit("address", "concurrent", None, 1)})
    model.set(gap_ms=50, chunks=200)
    held = server.begin(stream=True, parts=True)
    held.wait_for(b"data: ")
    said = agree(server)
    assert (said["code"], said["retry_after"]) == ("concurrent_limit", 2)
    assert agree(server, source="127.0.0.9")["available"] is True
    held.close()


def test_under_a_crowd_it_never_says_yes_where_the_next_hears_no(gate, model):
    """While others spend the site's last calls it is always readable; whoever then asks alone
    hears what was shown."""
    server = gate(limits={"site-day": limit("everyone", "calls", "day", 30)}, procs=2)
    shown, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            shown.append(status(server).json["code"])

    watcher = threading.Thread(target=look)
    watcher.start()
    admitted = 0
    with concurrent.futures.ThreadPoolExecutor(8) as crowd:
        for _ in range(6):
            admitted += [answer.status for answer in crowd.map(lambda _: server.chat("x"), range(8))].count(200)
            admitted += agree(server)["available"]
    stop.set()
    watcher.join()
    assert admitted == 30 == model.count
    assert set(shown) <= {None, "busy", "site_limit"}
    assert agree(server)["code"] == "site_limit"
