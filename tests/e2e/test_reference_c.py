"""Reference system C, by platform/examples/six-caps.conf: six caps on a personal site, on one
request, per visitor, per address and for the site."""
import datetime
import threading

import pytest

import storefile
from examples import cookie, fill, shipped  # noqa: F401: a fixture
from harness import until
from test_midnight import MIDNIGHT, SECOND, clock  # noqa: F401: a fixture

CONFIG = "six-caps.conf"
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
CAP, PER_CALL, PER_MESSAGE = 300, 64, 16
OF_SITE = 500000
BYPASS = "X-Pennygate-Bypass", "a-secret-of-the-owners-0123456789"


@pytest.mark.parametrize("letter", ["x", "é", "字", "🧂"])
def test_99_characters_are_taken_and_100_are_not(shipped, model, letter):  # noqa: F811
    """Code points, whatever they take in UTF-8 or UTF-16."""
    place = shipped(CONFIG)
    server = place.start()
    assert server.chat(letter * 99).status == 200
    for n in (100, 1000):
        answer = server.chat(letter * n)
        assert (answer.status, answer.code) == (400, "too_long")
        assert "99" in answer.error["message"], "the page can say how many"
    assert model.count == 1
    assert place.used("site-day") <= PER_CALL + PER_MESSAGE + 4 * 99 + CAP


def talk(n, text):
    """A conversation of n messages whose last is a short question."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i in range(n - 1)] + [
        {"role": "user", "content": "And why?"}]


@pytest.mark.parametrize("padding, status", [
    ([(3, "x" * 3496)], 200), ([(3, "x" * 3497)], 400), ([(9, "y" * 875)], 400), ([(9, "y" * 874)], 200),
    ([(3, "字" * 3497)], 400)], ids=["7000", "7002", "7008 in nine", "7000 in nine", "wide characters"])
def test_padded_history_is_bounded_by_the_sum(shipped, model, padding, status):  # noqa: F811
    """The gap of the publication: there the newest message alone is looked at."""
    place = shipped(CONFIG)
    server = place.start()
    (n, text), = padding
    answer = server.chat(talk(n, text))
    assert answer.status == status
    assert model.count == (status == 200)
    if status == 400:
        assert answer.code == "too_long"


def test_the_last_ten_messages_are_sent_on(shipped, model):  # noqa: F811
    """The older ones neither reach the model nor count. The first sent is a user's."""
    place = shipped(CONFIG)
    server = place.start()
    said = [{"role": ("user", "assistant")[n % 2], "content": f"number {n}"} for n in range(30)]
    for count in (9, 10, 11, 29, 30):
        said_now = said[:count - 1] + [{"role": "user", "content": "And why?"}]
        assert server.chat(said_now).status == 200
        sent = model.last["messages"]
        assert sent == said_now[-len(sent):] and sent[0]["role"] == "user"
        assert len(sent) == min(count, 9 if count % 2 else 10)


def test_an_answer_has_300_tokens_whatever_is_asked_for(shipped, model):  # noqa: F811
    place = shipped(CONFIG)
    server = place.start()
    for fields in ({}, {"max_tokens": 5000}, {"max_completion_tokens": 5000}):
        assert server.chat("Why?", fields=fields).status == 200
        assert model.last["max_completion_tokens"] == 300 and "max_tokens" not in model.last


def statuses(server, n, **options):
    return [server.chat("Why?", **options).status for _ in range(n)]


def test_five_an_hour_for_a_visitor_wherever_it_is(shipped, model):  # noqa: F811
    """One browser on a train: its address changes with each call."""
    server = shipped(CONFIG).start()
    first = server.chat("Why?", source="127.0.3.1")
    mine = cookie(first)
    for n in range(5):
        assert server.chat("Why?", source=f"127.0.3.{2 + n}", headers=[mine]).status == 200
    refused = server.chat("Why?", source="127.0.3.9", headers=[mine])
    assert (refused.status, refused.code) == (429, "visitor_limit")
    assert (refused.header("X-RateLimit-Limit"), refused.header("X-RateLimit-Remaining")) == ("5", "0")
    assert 0 < int(refused.header("Retry-After")) <= 3600


def test_five_an_hour_for_an_address_whoever_is_there(shipped, model):  # noqa: F811
    """Two browsers in one house: each has its cookie, together they have five."""
    server = shipped(CONFIG).start()
    one, two = (cookie(server.chat("Why?", source="127.0.3.1")) for _ in range(2))
    assert one != two
    for n in range(3):
        assert server.chat("Why?", source="127.0.3.1", headers=[(one, two)[n % 2]]).status == 200
    for mine in (one, two):
        refused = server.chat("Why?", source="127.0.3.1", headers=[mine])
        assert (refused.status, refused.code) == (429, "address_limit")
    assert server.chat("Why?", source="127.0.3.2", headers=[one]).status == 200
    assert model.count == 6


def test_f40_a_dropped_cookie_gains_nothing(shipped, model):  # noqa: F811
    """Five without a cookie, whoever asks; nor does a forged one help."""
    server = shipped(CONFIG).start()
    mine = cookie(server.chat("Why?"))
    assert statuses(server, 5) == [200] * 4 + [429]
    name, _, value = mine[1].partition("=")
    for text in (value[:-1] + ("A" if value[-1] != "A" else "B"), value[:-2], "", "1." + "A" * 22 + ".1." + "A" * 22):
        assert statuses(server, 1, headers=[("Cookie", f"{name}={text}")]) == [429]
    assert statuses(server, 1, headers=[mine]) == [429], "the address has had its five"
    assert model.count == 5


def test_twenty_a_day(clock, model):  # noqa: F811
    """Five in each of four hours, then none until midnight; for a visitor from ever new addresses
    and for an address with ever new visitors."""
    now = clock(MIDNIGHT - 10 * HOUR, fill=lambda place: fill(place, CONFIG))
    mine = cookie(now.server.chat("Why?", source="127.0.2.1"))
    for hour in range(4):
        now.to(MIDNIGHT - (9 - hour) * HOUR + MINUTE)
        for n in range(5):
            source = f"127.0.3.{1 + 5 * hour + n}"
            assert now.server.chat("Why?", source=source, headers=[mine]).status == 200
        assert now.server.chat("Why?", source="127.0.3.99", headers=[mine]).code == "visitor_limit"
        assert statuses(now.server, 6, source="127.0.4.1") == [200] * 5 + [429]
    now.to(MIDNIGHT - 4 * HOUR)
    spent = now.server.chat("Why?", source="127.0.3.99", headers=[mine])
    assert spent.code == "visitor_limit" and 3 * 3600 < int(spent.header("Retry-After")) <= 4 * 3600
    assert now.server.chat("Why?", source="127.0.4.1").code == "address_limit"
    assert now.server.chat("Why?", source="127.0.4.2").status == 200
    now.to(MIDNIGHT + SECOND)
    assert now.server.chat("Why?", source="127.0.3.99", headers=[mine]).status == 200
    assert now.server.chat("Why?", source="127.0.4.1").status == 200


def test_windows_are_buckets_of_utc_that_expire_by_themselves(clock, model):  # noqa: F811
    """A second before the hour five more are refused, at the hour they are not; and rows of hours
    that have ended are gone from the store."""
    now = clock(MIDNIGHT - 3 * HOUR - 30 * SECOND, fill=lambda place: fill(place, CONFIG))
    assert statuses(now.server, 6) == [200] * 5 + [429]
    now.to(MIDNIGHT - 3 * HOUR - 2 * SECOND)
    assert statuses(now.server, 1) == [429]
    now.to(MIDNIGHT - 3 * HOUR)
    assert statuses(now.server, 6) == [200] * 5 + [429]
    code = (2**31 + 1).to_bytes(4, "big")
    hour = [key for key, _ in storefile.rows(now.place) if key[0] == storefile.COUNTER and key[9:13] == code]
    now.server.stop()
    now.to(MIDNIGHT - HOUR)
    now.place.run("maintain")
    now.server = now.place.start()
    assert statuses(now.server, 1) == [200]
    assert hour and not set(hour) & {key for key, _ in storefile.rows(now.place)}


def test_500000_tokens_a_day_without_overshoot(shipped, model):  # noqa: F811
    """20 at once from 20 addresses, each worth a fifteenth of the day: there, usage is recorded once
    a reply has ended, and all of them would pass."""
    model.set(first_ms=100, usage="none")
    place = shipped(CONFIG)
    server, answers, lock = place.start(procs=2), [], threading.Lock()
    padded = talk(7, "🧂" * 1165)
    weight = sum(len(one["content"].encode()) for one in padded) + PER_CALL + 7 * PER_MESSAGE + CAP

    def ask(host):
        answer = server.chat(padded, source=f"127.0.3.{host}")
        with lock:
            answers.append(answer)

    callers = [threading.Thread(target=ask, args=(1 + n,)) for n in range(20)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    admitted = sum(answer.status == 200 for answer in answers)
    assert admitted == OF_SITE // weight == model.count == 17
    assert {answer.code for answer in answers if answer.status != 200} == {"site_limit"}
    assert OF_SITE - weight < place.used("site-day") == admitted * weight <= OF_SITE
    small = server.chat("x", source="127.0.3.99")
    assert small.status == 200, "what is left serves a small one"


def test_what_an_answer_did_not_use_is_given_back(shipped, model):  # noqa: F811
    model.set(prompt_tokens=20, completion_tokens=30)
    place = shipped(CONFIG)
    server = place.start()
    assert statuses(server, 5) == [200] * 5
    place.settled()
    assert place.used("site-day") == 5 * 50


def test_the_owner_passes_by_all_caps_but_those_on_the_request(shipped, model):  # noqa: F811
    """By a header with the secret. It is counted apart, uses up nobody's limits, has one of its own,
    and a wrong secret is none."""
    place = shipped(CONFIG, PENNYGATE_BYPASS_MAX="9")
    server = place.start()
    assert statuses(server, 6) == [200] * 5 + [429]
    place.settled()
    used = place.used("site-day")
    for n in range(7):
        assert server.chat("Why?", headers=[BYPASS], stream=n % 2 == 1).status == 200
    assert place.settled()["bypassed"] == 7
    assert place.used("site-day") == used
    for text, status in ((99, 200), (100, 400)):
        assert server.chat("x" * text, headers=[BYPASS]).status == status
    assert server.chat(talk(9, "y" * 875), headers=[BYPASS]).code == "too_long"
    assert server.chat("Why?", headers=[BYPASS]).status == 200
    refused = server.chat("Why?", headers=[BYPASS])
    assert (refused.status, refused.code) == (429, "bypass_limit")
    for wrong in (BYPASS[1][:-1], BYPASS[1] + "0", "", BYPASS[1].upper()):
        assert server.chat("Why?", headers=[(BYPASS[0], wrong)]).code == "address_limit"
    assert model.count == 5 + 9
    server.stop()  # so that every line is in the log
    assert BYPASS[1] not in server.log()


def test_there_is_no_transcript_unless_it_is_asked_for(shipped, model):  # noqa: F811
    model.set(text="forty purple elephants")
    place = shipped(CONFIG)
    server = place.start()
    assert server.chat("zebra crossing umbrella").status == 200
    place.settled()
    for path in place.directory.rglob("*"):
        if path.is_file() and path.name != "pennygate":
            held = path.read_bytes()
            assert b"zebra" not in held and b"elephants" not in held, path
    assert not [path for path in place.store.rglob("*") if "transcript" in path.name]


def test_transcripts_are_kept_for_30_days(clock, model):  # noqa: F811
    """As the commented-out line says: under a hash, and gone after 30 days."""
    def keep(place):
        fill(place, CONFIG)
        text = place.config.read_text(encoding="utf-8")
        assert "# transcripts { keep = yes" in text
        place.write(text.replace("# transcripts { keep = yes", "transcripts { keep = yes"))

    model.set(text="forty purple elephants")
    now = clock(MIDNIGHT - HOUR, fill=keep)
    assert now.server.chat("zebra crossing umbrella", source="127.0.3.77").status == 200
    now.place.settled()

    def listed():
        return now.place.run("transcripts", "export")

    assert until(lambda: "zebra" in listed() and "elephants" in listed(), 5, "the transcript")
    assert "127.0.3.77" not in listed()
    for day in range(31):
        now.server.stop()
        now.to(MIDNIGHT - 2 * HOUR + datetime.timedelta(hours=23, minutes=59) * day)
        now.place.run("maintain")
        now.server = now.place.start()
    assert "zebra" in listed()
    now.server.stop()
    now.to(MIDNIGHT + 31 * 24 * HOUR)
    now.place.run("maintain")
    assert "zebra" not in listed()
