"""F50 and F53: a configuration that changes under running processes holds for all of them at
once; one that does not parse admits nothing; defaults do not vanish because a section was
written."""
import base64
import re

import pytest

from harness import WIDE, limit, until


def test_f53_a_changed_limit_holds_for_all_processes_at_once(site, model):
    place = site()
    server = place.start(procs=3)
    assert all(server.chat().status == 200 for _ in range(9))
    pids = set(server.gateways())
    place.limits["site-day"] = limit("everyone", "calls", "day", 9)
    place.write()
    assert {server.chat().code for _ in range(9)} == {"site_limit"}
    place.limits["site-day"] = limit("everyone", "calls", "day", 10)
    place.write()
    assert [server.chat().status for _ in range(9)] == [200] + [429] * 8
    assert model.count == 10
    assert set(server.gateways()) == pids, "no process had to end for it"


@pytest.mark.parametrize("text", ["", "limit x {", "nonsense = 1\n", "limit site-day { max = 010 }\n",
                                  "site { store = '/nowhere' }\n\0"])
def test_f53_a_configuration_that_does_not_parse_admits_nothing(site, model, text):
    place = site()
    server = place.start(procs=2)
    assert server.chat().status == 200
    place.write(text)
    for _ in range(4):
        answer = server.chat()
        assert (answer.status, answer.code) == (503, "configuration")
    assert "level=error" in server.log()
    place.config.unlink()
    assert server.chat().code == "configuration"
    place.write()
    until(lambda: all(server.chat().status == 200 for _ in range(4)), 5, "service by all processes")


def test_a_mended_configuration_is_taken_up_by_the_next_request(site, model):
    """However short the time since it was found broken."""
    place = site()
    server = place.start()
    assert server.chat().status == 200
    for _ in range(5):
        place.write("nonsense = 1\n")
        assert server.chat().code == "configuration"
        place.write()
        assert server.chat().status == 200


def test_f53_a_changed_secret_is_no_fresh_quota(site, model):
    place = site(limits={"visitor-day": limit("address", "calls", "day", 1)})
    server = place.start(procs=2)
    assert server.chat().status == 200
    old = place.secret.read_text(encoding="ascii")
    place.secret.write_text("7" * 64 + "\n", encoding="ascii")
    for _ in range(4):
        answer = server.chat()
        assert answer.status == 503 or not answer.body.startswith(b"{")
    place.secret.write_text(old, encoding="ascii")
    until(lambda: server.chat().status == 429, 10, "the old count")
    assert model.count == 1


def test_f53_a_changed_key_is_used_by_the_next_call(site, model):
    place = site()
    server = place.start()
    assert server.chat().status == 200
    place.key.write_text("sk-the-next\n", encoding="ascii")
    assert server.chat().status == 200
    assert model.stats()["last"]["headers"]["authorization"] == "Bearer sk-the-next"


def test_f53_running_streams_keep_theirs(site, model):
    place = site()
    server = place.start()
    model.set(chunks=20, gap_ms=30)
    call = server.begin(stream=True)
    call.wait_for(b'"content":"')
    place.demo["max-output-tokens"] = 50
    place.limits["site-day"] = limit("everyone", "calls", "day", 1)
    place.write()
    assert server.chat().status == 429
    assert b"[DONE]" in b"".join(data for _, data in call.pieces())


def test_f53_what_cannot_be_swapped_starts_the_process_anew(site, model):
    place = site()
    server = place.start()
    assert server.chat().status == 200
    place.server["streams"] = 1
    place.write()
    model.set(hang=True)

    calls = [server.begin(stream=True, parts=True) for _ in range(3)]
    try:
        until(lambda: "busy" in server.log(), 10, "the new number of streams")
        until(lambda: model.stats()["open"] == 1, 5, "the one that found a place")
    finally:
        for call in calls:
            call.close()


def test_f50_one_section_does_not_remove_the_default_ceilings(site, model):
    mine = {"mine": limit("address", "calls", "hour", 1000)}
    place = site(limits={**{name: None for name in WIDE}, **mine})
    server = place.start()
    answers = [server.chat() for _ in range(11)]
    assert [a.status for a in answers] == [200] * 10 + [429]
    assert answers[-1].code == "burst_limit", "visitor-burst is still there"
    shown = place.run("check")
    for name in WIDE:
        assert name in shown
    assert model.count == 10


def test_f50_a_missing_site_ceiling_is_an_error(site):
    place = site(limits={"site-day": {"per": "everyone", "unit": "calls", "window": "day",
                                      "max": "unlimited"}})
    assert place.run("check", check=False).returncode != 0
    answer = place.start().chat()
    assert (answer.status, answer.code) == (503, "configuration")
    place.site["site-ceiling"] = "none"
    place.write()
    place.run("check")


def test_an_environment_variable_overrides_and_an_unknown_one_is_an_error(site):
    place = site()
    shown = place.run("check", PENNYGATE_SITE_LIMIT="77")
    assert "77" in shown
    assert place.run("check", check=False, PENNYGATE_SIET_LIMIT="77").returncode != 0


def test_pause_and_resume_hold_for_all_processes(site, model):
    place = site()
    server = place.start(procs=2)
    assert server.chat().status == 200
    place.run("pause")
    for _ in range(4):
        answer = server.chat()
        assert (answer.status, answer.code) == (503, "paused")
    place.run("resume")
    assert all(server.chat().status == 200 for _ in range(4))
    assert model.count == 5


def test_f53_a_changed_prompt_is_sent_and_counted_from_the_next_call_on(site, model):
    model.set(usage="none")
    place = site(demo={"overhead-per-call": 0, "overhead-per-message": 0},
                 limits={"budget": limit("everyone", "tokens", "day", 100000)}, init=False)
    prompt = place.directory / "prompt"
    place.demo["system-prompt-file"] = prompt
    prompt.write_text("Be brief.", encoding="utf-8")
    place.write()
    place.init()
    server = place.start(procs=2)
    used = 0
    for text in ("Be brief.", "Be kind, and answer in a whole sentence.", "Be brief."):
        prompt.write_text(text, encoding="utf-8")
        for _ in range(4):
            assert server.chat("0123456789").status == 200
            assert model.last["messages"][0]["content"] == text
            used += len(text) + 10 + 100
    place.settled()
    assert place.used("budget") == used
    prompt.rename(place.directory / "away")
    for _ in range(4):
        answer = server.chat()
        assert (answer.status, answer.code) == (503, "configuration")
    (place.directory / "away").rename(prompt)
    until(lambda: all(server.chat().status == 200 for _ in range(4)), 5, "service by all processes")


@pytest.mark.parametrize("harm", ["missing", "readable by all", "empty", "two lines", "a directory"])
def test_f53_a_key_that_can_no_longer_be_used_stops_all_processes(site, model, harm):
    place = site()
    server = place.start(procs=2)
    assert all(server.chat().status == 200 for _ in range(4))
    key = place.key.read_text(encoding="ascii")
    away = place.directory / "key.away"
    if harm == "readable by all":
        place.key.chmod(0o644)
    elif harm in ("empty", "two lines"):
        place.key.write_text("" if harm == "empty" else "sk-a\nsk-b\n", encoding="ascii")
    else:
        place.key.rename(away)
        if harm == "a directory":
            place.key.mkdir()
    for _ in range(4):
        answer = server.chat()
        assert (answer.status, answer.code) == (503, "configuration")
    assert "key" in server.log() and "sk-" not in server.log()
    assert model.count == 4
    if harm == "a directory":
        place.key.rmdir()
    if away.exists():
        away.rename(place.key)
    place.key.write_text(key, encoding="ascii")
    place.key.chmod(0o600)
    until(lambda: all(server.chat().status == 200 for _ in range(4)), 5, "service by all processes")


def test_f53_a_change_holds_for_cgi_too(site, model):
    place = site()
    server = place.start("cgi")
    assert server.chat().status == 200
    place.limits["site-day"] = limit("everyone", "calls", "day", 1)
    place.write()
    assert server.chat().code == "site_limit"
    place.write("nonsense = 1\n")
    assert server.chat().code == "configuration"
    place.limits["site-day"] = limit("everyone", "calls", "day", 2)
    place.write()
    assert [server.chat().status for _ in range(2)] == [200, 429]
    assert model.count == 2


def test_f53_a_changed_limit_counts_what_was_used_before_it(site, model):
    """Another max, unit or name of a limit is no fresh budget, nor is leaving it out for a while."""
    place = site(demo={"overhead-per-call": 0, "overhead-per-message": 0})
    model.set(prompt_tokens=10, completion_tokens=20)
    server = place.start()
    assert all(server.chat("0123456789").status == 200 for _ in range(3))
    place.settled()
    place.limits["another-name"] = limit("everyone", "calls", "day", 3)
    place.write()
    assert server.chat("0123456789").code == "site_limit"
    place.limits["another-name"] = limit("everyone", "tokens", "day", 3 * 30 + 110)
    place.write()
    assert server.chat("0123456789").status == 200
    place.settled()
    assert server.chat("0123456789").code == "site_limit", "120 are used, and 110 more may be needed"
    del place.limits["another-name"]
    place.write()
    assert server.chat("0123456789").status == 200
    place.limits["another-name"] = limit("everyone", "calls", "day", 5)
    place.write()
    assert server.chat("0123456789").code == "site_limit"
    assert model.count == 5


@pytest.mark.parametrize("secret", ["7" * 64 + "\n", "", "short\n", None])
def test_f53_a_secret_that_is_not_the_stores_admits_nobody_anywhere(site, model, secret):
    """By no process, in no way to be mounted, and the command line says so too."""
    place = site(limits={"visitor-day": limit("address", "calls", "day", 3)})
    servers = [place.start(procs=2), place.start("cgi")]
    assert all(server.chat().status == 200 for server in servers)
    old = place.secret.read_text(encoding="ascii")
    if secret is None:
        place.secret.unlink()
    else:
        place.secret.write_text(secret, encoding="ascii")

    def refused(server):
        answer = server.chat()
        assert answer.status == 503 or not answer.body.startswith(b"{"), answer.body
        return answer.body.startswith(b"{") and answer.code in ("meter_unavailable", "configuration")

    for server in servers:
        until(lambda server=server: refused(server), 10, "the lasting code")
        assert "level=error" in server.log()
    assert place.run("check", check=False).returncode != 0
    assert place.run("stats", check=False).returncode != 0
    place.secret.unlink(missing_ok=True)
    place.secret.write_text(old, encoding="ascii")
    place.secret.chmod(0o600)
    place.own(place.secret)
    until(lambda: servers[0].chat().status == 200, 10, "service under the old secret")
    assert servers[1].chat().status == 429, "what was used before still counts"
    assert model.count == 3


ORIGIN = [("Origin", "https://www.example.org")]


def test_f53_changed_origins_hold_for_all_processes_at_once(site, model):
    place = site()
    server = place.start(procs=3)
    for allowed, status in ((None, 403), (["https://www.example.org"], 200),
                            (["https://www.example.org:8443", "http://www.example.org"], 403), ([], 403)):
        place.site["allowed-origins"] = allowed
        place.write()
        assert [server.chat(headers=ORIGIN).status for _ in range(6)] == [status] * 6, allowed
    assert model.count == 6


def test_f53_what_callers_must_show_holds_for_all_processes_at_once(site, model):
    place = site()
    server = place.start(procs=3)
    key = re.search(r"pg_[\w-]+", place.run("keys", "add", "ann"))[0]
    shown = [("Authorization", f"Bearer {key}")]
    for require, nothing, with_key in (("none", 200, 200), ("key", 401, 200), ("account", 401, 401), (None, 200, 200)):
        place.site["require"] = require
        place.write()
        assert [server.chat().status for _ in range(6)] == [nothing] * 6, require
        assert [server.chat(headers=shown).status for _ in range(6)] == [with_key] * 6, require
    place.run("keys", "revoke", "ann")
    assert [server.chat(headers=shown).status for _ in range(6)] == [401] * 6


def test_f53_whose_word_is_taken_holds_for_all_processes_at_once(site, model):
    """A proxy that is no longer trusted cannot go on to choose an address."""
    place = site(limits={"visitor-day": limit("address", "calls", "day", 1)}, options={"trusted-proxies": ["127.0.0.1"]})
    server = place.start(procs=3)

    def statuses(first):
        return [server.chat(headers=[("X-Forwarded-For", f"192.0.2.{first + n}")]).status for n in range(6)]

    assert statuses(1) == [200] * 6
    place.site["trusted-proxies"] = ["10.0.0.1"]
    place.write()
    assert statuses(11) == [200] + [429] * 5, "all of them are the peer"
    place.site["trusted-proxies"] = ["127.0.0.0/8"]
    place.write()
    assert statuses(21) == [200] * 6


def test_f53_a_changed_bypass_secret_is_the_only_one_at_once(site, model):
    place = site(limits={"site-day": limit("everyone", "calls", "day", 0)})
    secret = place.directory / "bypass"
    place.sections["bypass"] = {"secret-file": secret}

    def status(word):
        return [server.chat(headers=[("X-Pennygate-Bypass", word)]).status for _ in range(4)]

    def put(word):
        new = place.directory / "bypass.new"
        new.write_text(word + "\n", encoding="ascii")
        new.chmod(0o600)
        place.own(new)
        new.rename(secret)

    put("the-first-of-them")
    place.write()
    server = place.start(procs=2)
    assert (status("the-first-of-them"), status("the-second-of-them")) == ([200] * 4, [429] * 4)
    put("the-second-of-them")
    assert (status("the-first-of-them"), status("the-second-of-them")) == ([429] * 4, [200] * 4)
    secret.chmod(0o644)
    assert status("the-second-of-them") == [503] * 4, "others can read it"
    secret.chmod(0o600)
    place.sections["bypass"]["max"] = 8
    place.write()
    assert status("the-second-of-them") == [429] * 4, "what was used before counts"
    place.sections["bypass"] = {}
    place.write()
    assert status("the-second-of-them") == [429] * 4, "without a secret it is nobody's"
    assert model.count == 8
    server.stop()  # so that every line is in the log
    assert "-of-them" not in server.log()


def test_f53_a_dry_run_that_is_meant_at_last_refuses_from_the_next_request_on(site, model):
    trial = {**limit("everyone", "calls", "day", 2), "dry-run": "yes"}
    place = site(limits={"trial": trial})
    server = place.start(procs=2)
    assert [server.chat().status for _ in range(4)] == [200] * 4
    place.settled()
    trial["dry-run"] = "no"
    place.write()
    assert {server.chat().code for _ in range(4)} == {"site_limit"}
    trial["dry-run"] = "yes"
    place.write()
    assert server.chat().status == 200
    assert model.count == 5


def test_f7_f50_an_empty_list_or_a_zero_is_what_it_says(site, model):
    """A limit of 0 admits nobody; no origin and no proxy is none, and no default comes back."""
    place = site(options={"allowed-origins": [], "trusted-proxies": []},
                 limits={"visitor-day": limit("visitor", "calls", "day", 0)})
    server = place.start()
    assert server.chat().code == "visitor_limit"
    assert server.chat(headers=ORIGIN).status == 403
    assert model.count == 0


def test_f50_a_site_whose_only_ceiling_is_a_dry_run_admits_nothing(site, model):
    place = site(limits={"site-day": {**limit("everyone", "calls", "day", 600), "dry-run": "yes"}})
    answer = place.start().chat()
    assert (answer.status, answer.code) == (503, "configuration")
    assert model.count == 0


@pytest.mark.parametrize("per, headers", [("account", True), ("visitor", False), ("address", False)])
def test_f53_a_limit_of_calls_at_once_counts_those_that_are_open(site, model, per, headers):
    """Also if it is the first limit of that subject."""
    place = site()
    place.users = {"ann": "a"}
    place.write()
    server = place.start("external")
    who = [("Authorization", "Basic " + base64.b64encode(b"ann:a").decode())] if headers else []
    model.set(chunks=1000, gap_ms=20)
    streams = [server.begin(stream=True, headers=who) for _ in range(3)]
    for stream in streams:
        stream.wait_for(b"data:")
    place.limits["at-once"] = limit(per, "concurrent", None, 1)
    place.write()
    assert server.chat(headers=who).code == "concurrent_limit"
    assert model.stats()["open"] == 3
    for stream in streams:
        stream.close()
    model.set(chunks=2, gap_ms=0)
    until(lambda: server.chat(headers=who).status == 200, 10, "a place")
