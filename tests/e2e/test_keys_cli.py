"""keys and forgive on the command line: what they print, what they leave behind, exit status."""
import json
import re
import subprocess
import time

import pytest

from examples import account
from harness import Site, limit, until

TOKEN = re.compile(r"pg_[A-Za-z0-9]{32}")


class NoModel:
    """No command but serve talks to a model."""
    url = "http://127.0.0.1:9"


@pytest.fixture
def made():
    one = Site(NoModel(), limits={"key-month": limit("key", "calls", "month", 1000)})
    one.directory.chmod(0o755)
    yield one.init()
    one.close()


def fails(site, status, *arguments):
    done = site.run(*arguments, check=False)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stdout == ""
    return done.stderr


def keys(site):
    return json.loads(site.run("keys", "list", "--json"))["keys"]


# ---- keys ----------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_is_nowhere_else(made):
    done = made.run("keys", "add", "ann", check=False)
    token = done.stdout.strip()
    assert done.returncode == 0 and done.stdout == token + "\n"
    assert TOKEN.fullmatch(token)
    assert "only time" in done.stderr and "ann" in done.stderr and token not in done.stderr
    assert token not in made.run("keys", "list") + made.run("keys", "list", "--json") + made.run("check")
    for path in made.directory.rglob("*"):
        if path.is_file():
            assert token[3:].encode() not in path.read_bytes(), path


def test_no_token_is_like_another(made):
    tokens = [made.run("keys", "add", f"k{i}").strip() for i in range(8)]
    assert len(set(tokens)) == 8
    # every place has more than one letter in it: none of the bits is lost
    assert all(len({token[3 + i] for token in tokens}) > 1 for i in range(32))


def test_list_and_revoke(made):
    assert "no keys" in made.run("keys", "list")
    assert keys(made) == []
    before = int(time.time())
    for name in ("zoe", "ann", "Bob_2-x"):
        made.run("keys", "add", name)
    listed = keys(made)
    assert [key["name"] for key in listed] == ["Bob_2-x", "ann", "zoe"]
    for key in listed:
        assert list(key) == ["name", "created_s", "limits"]
        assert before <= key["created_s"] <= time.time() and key["limits"] == []
    lines = made.run("keys", "list").splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == ["key", "Bob_2-x", "ann", "zoe"]
    assert any(re.search(r"^ann +\d{4}-\d\d-\d\d *$", line) for line in lines)
    assert "revoked" in made.run("keys", "revoke", "ann")
    assert [key["name"] for key in keys(made)] == ["Bob_2-x", "zoe"]
    assert "no key ann" in fails(made, 1, "keys", "revoke", "ann")
    assert TOKEN.fullmatch(made.run("keys", "add", "ann").strip())  # the name is free again


def test_list_says_what_a_key_has_left(gate):
    server = gate(limits={"per-key": limit("key", "calls", "day", 5)})
    token = server.site.run("keys", "add", "ann").strip()
    server.site.run("keys", "add", "bob", "--limit", "calls/30d=9")
    for _ in range(2):
        assert server.chat(headers=[("Authorization", f"Bearer {token}")]).status == 200
    lines = [line.strip() for line in server.site.run("keys", "list").splitlines() if line[0] == " "]
    assert lines == ["3 of 5 calls left, per day", "5 of 5 calls left, per day", "9 of 9 calls left, per 30d"]


def test_f6_no_limit_that_could_not_be_counted(site, model):
    """A model without a price costs nothing that could be added up; not even at run time, where the
    configuration has changed since the key was made."""
    place = site()
    token = place.run("keys", "add", "ann", "--limit", "cost/day=$5").strip()
    assert "reserves" in fails(place, 1, "keys", "add", "bob", "--limit", "cost/day=$0.00001")
    del place.demo["price-input"], place.demo["price-output"]
    place.write()
    assert "has no price" in fails(place, 1, "keys", "add", "bob", "--limit", "cost/day=$5")
    server = place.start()
    answer = server.chat(headers=[("Authorization", f"Bearer {token}")])
    assert (answer.status, answer.code) == (503, "configuration")
    assert server.chat().status == 200 and model.count == 1


def test_limits_of_its_own(made):
    made.run("keys", "add", "ann", "--limit", "calls/day=100", "--limit=cost/30d=$5",
             "--limit", "concurrent=2", "--limit", "tokens/month=unlimited")
    assert keys(made)[0]["limits"] == [
        {"unit": "calls", "window": "day", "max": 100},
        {"unit": "cost", "window": "30d", "max": 5000000000},
        {"unit": "concurrent", "window": "", "max": 2},
        {"unit": "tokens", "window": "month", "max": None},
    ]
    listed = made.run("keys", "list")
    words = listed.split("limits of its own\n")[1].split()[:6]
    assert words[2:] == ["calls/day=100", "cost/30d=$5.00", "concurrent=2", "tokens/month=unlimited"]
    assert max(map(len, listed.splitlines())) <= 80
    # what list prints can be given again
    made.run("keys", "add", "bob", *(f"--limit={text}" for text in words[2:]))
    assert keys(made)[1]["limits"] == keys(made)[0]["limits"]


LIMITS = [
    ("calls/day", "has no '='"),
    ("calls=5", "no window"),
    ("concurrent/day=5", "takes no window"),
    ("call/day=5", "is none of: calls tokens cost concurrent"),
    ("calls/=5", "is not hour, day"),
    ("calls/10=5", "is not hour, day"),
    ("calls/400d=5", "is not hour, day"),
    ("calls/day=", "whole number"),
    ("calls/day=-1", "whole number"),
    ("calls/day=010", "whole number"),
    ("calls/day=$5", "whole number"),
    ("calls/day=99999999999999999999999", "whole number"),
    ("calls/day=9999999999999999", "out of range"),
    ("cost/day=5.1234567890123", "amount of dollars"),
    ("calls/day=5=6", "whole number"),
    ("calls/day/day=5", "is not hour, day"),
    ("=", "is none of"),
    ("x" * 200, "too long"),
]


@pytest.mark.parametrize("text, says", LIMITS)
def test_a_limit_that_is_not_understood_makes_no_key(made, text, says):
    message = fails(made, 2, "keys", "add", "ann", "--limit", text)
    assert says in message and "such as calls/day=100" in message
    assert keys(made) == []


@pytest.mark.parametrize("status, arguments, says", [
    (2, ["keys"], "an argument is missing: add NAME|list|revoke NAME"),
    (2, ["keys", "add"], "an argument is missing"),
    (2, ["keys", "ad", "ann"], "unexpected argument 'ad'"),
    (2, ["keys", "NAME"], "unexpected argument 'NAME'"),
    (2, ["keys", "add", "ann", "bob"], "unexpected argument 'bob'"),
    (2, ["keys", "add", "a", "b", "c"], "unexpected argument 'c'"),
    (2, ["keys", "list", "ann"], "unexpected argument 'ann'"),
    (2, ["keys", "add", "a b"], "letters, digits"),
    (2, ["keys", "add", ""], "letters, digits"),
    (2, ["keys", "add", "\N{LATIN SMALL LETTER E WITH ACUTE}"], "letters, digits"),
    (2, ["keys", "add", "x" * 32], "letters, digits"),
    (2, ["keys", "add", "-x"], "unknown flag"),
    (2, ["keys", "add", "ann", "--json"], "--json with list"),
    (2, ["keys", "list", "--limit", "calls/day=1"], "--limit goes with add"),
    (2, ["keys", "revoke", "ann", "--limit", "calls/day=1"], "--limit goes with add"),
    (2, ["keys", "add", "ann", *["--limit", "calls/day=1"] * 5], "given too often"),
    (2, ["keys", "add", "ann", *["--limit", "calls/day=1"] * 2], "unit and window already"),
    (2, ["pause", "--limit", "calls/day=1"], "does not go with 'pause'"),
    (1, ["keys", "revoke", "nobody"], "no key nobody"),
    (2, ["forgive"], "an argument is missing: address A|account NAME|"),
    (2, ["forgive", "address"], "an argument is missing"),
    (2, ["forgive", "addresses", "192.0.2.1"], "unexpected argument 'addresses'"),
    (2, ["forgive", "everyone", "else"], "unexpected argument 'else'"),
    (2, ["forgive", "address", "192.0.2.256"], "no address"),
    (2, ["forgive", "address", ""], "no address"),
    (2, ["forgive", "account", ""], "has a name"),
    (1, ["forgive", "key", "nobody"], "no key nobody"),
    (1, ["forgive", "model", "practice-large"], "no model practice-large"),
])
def test_what_is_not_understood_or_not_there(made, status, arguments, says):
    before = made.data()
    assert says in fails(made, status, *arguments)
    assert made.data() == before


def test_a_name_that_is_taken_keeps_its_key(made):
    made.run("keys", "add", "ann", "--limit", "calls/day=1")
    assert "there is a key ann already" in fails(made, 1, "keys", "add", "ann")
    assert [len(key["limits"]) for key in keys(made)] == [1]


def test_windows_that_do_not_fit(made):
    for i in range(3):
        made.run("keys", "add", f"k{i}", *(f"--limit=calls/{4 * i + j + 1}h=9" for j in range(4)))
    assert "windows" in fails(made, 1, "keys", "add", "x", *(f"--limit=calls/{j}m=9" for j in (1, 2)))
    assert len(keys(made)) == 3


def test_a_token_that_cannot_be_written_out_makes_no_key(made):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([made.program, "keys", "add", "ann", "-c", made.config], stdout=full,
                              stderr=subprocess.PIPE, text=True, env=made.environment(), check=False)
    assert done.returncode == 1 and "there is no key ann" in done.stderr
    assert "only time" not in done.stderr
    assert keys(made) == []


def test_without_a_store_nothing_is_made(made):
    made.data_file.unlink()
    for arguments in (["keys", "add", "ann"], ["keys", "list"], ["forgive", "everyone"]):
        assert "pennygate init" in fails(made, 1, *arguments)
    assert not made.data_file.exists()


# ---- forgive -------------------------------------------------------------------------------


def test_there_may_be_nothing_to_forgive(made):
    before = made.data()
    made.run("keys", "add", "ann")
    for arguments in (["address", "2001:db8::1"], ["account", "ann@example.com"], ["key", "ann"],
                      ["everyone"], ["anonymous"], ["bypass"]):
        assert made.run("forgive", *arguments) == f"nothing to forgive: {' '.join(arguments)}\n"
    assert "model demo" in made.run("forgive", "model", "demo")
    assert made.data() != before  # the key alone


def test_an_address_gets_its_calls_back(gate):
    server = gate(limits={"visitor-day": limit("address", "calls", "day", 2)})
    answers = [server.chat() for _ in range(3)]
    assert [one.status for one in answers] == [200, 200, 429]
    server.site.settled()
    assert "nothing" in server.site.run("forgive", "address", "192.0.2.1")
    assert server.chat().status == 429
    assert server.site.run("forgive", "address", "127.0.0.1") == "forgiven: address 127.0.0.1\n"
    assert [server.chat().status for _ in range(3)] == [200, 200, 429]
    assert server.site.used("site-day") == 4  # the site's budget has nothing to do with it


def test_an_address_gets_back_what_is_shared_by_those_without_a_cookie(gate):
    server = gate(limits={"visitor-day": limit("visitor", "calls", "day", 1)})
    assert [server.chat().status for _ in range(2)] == [200, 429]
    server.site.settled()
    assert server.site.run("forgive", "address", "127.0.0.1") == "forgiven: address 127.0.0.1\n"
    assert [server.chat().status for _ in range(2)] == [200, 429]


@pytest.mark.parametrize("per", ["account", "key"])
def test_an_account_or_a_key_gets_its_calls_back_and_no_other(site, model, per):
    """But for what a call under way has reserved, which its settle will correct."""
    place = site(limits={"mine": limit(per, "calls", "day", 2)})
    if per == "key":
        tokens = [TOKEN.search(place.run("keys", "add", name))[0] for name in ("ann", "bob")]
        headers = [[("Authorization", f"Bearer {token}")] for token in tokens]
    else:
        headers = [[account(place, name)] for name in ("ann", "bob")]
    server = place.start()
    assert [server.chat(headers=headers[1]).status for _ in range(3)] == [200, 200, 429]
    assert server.chat(headers=headers[0]).status == 200
    place.settled()
    model.set(chunks=400, gap_ms=20)
    call = server.begin(stream=True, headers=headers[0])
    call.wait_for(b'"content":"')
    model.set(chunks=2, gap_ms=0)
    assert server.chat(headers=headers[0]).status == 429
    assert place.run("forgive", per, "ann") == f"forgiven: {per} ann\n"
    assert [server.chat(headers=headers[0]).status for _ in range(2)] == [200, 429]
    assert server.chat(headers=headers[1]).status == 429
    call.close()


def test_the_site_gets_its_budget_back(gate):
    server = gate(limits={"site-day": limit("everyone", "calls", "day", 1)})
    assert [server.chat().status for _ in range(2)] == [200, 429]
    until(lambda: server.site.day()["settled"] == 1, 5, "the settle")
    assert server.site.run("forgive", "everyone") == "forgiven: everyone\n"
    assert server.site.used("site-day") == 0
    assert [server.chat().status for _ in range(2)] == [200, 429]
