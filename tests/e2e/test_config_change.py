"""F50 and F53: a configuration that changes under running processes holds for all of them at
once; one that does not parse admits nothing; defaults do not vanish because a section was
written."""
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
        assert model.stats()["open"] == 1
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
