"""Reference system A, by platform/examples/daily-counter.conf: a counter per visitor and day and
one for the site and day. Refused requests are counted apart and raise no counter."""
import datetime
import re
import socket
import threading
import time

import pytest

import storefile
from examples import fill, shipped  # noqa: F401: a fixture
from harness import until
from test_midnight import MIDNIGHT, SECOND, clock  # noqa: F401: a fixture

CONFIG = "daily-counter.conf"
ALICE, BOB, CAROL = "127.0.0.11", "127.0.0.12", "127.0.0.13"

# who asks, what is answered, afterwards: the site's counter and the visitor's own
TRACE = [
    (ALICE, None, 1, 1), (ALICE, None, 2, 2), (ALICE, None, 3, 3),
    (ALICE, "address_limit", 3, 3), (ALICE, "address_limit", 3, 3),
    (BOB, None, 4, 1), (BOB, None, 5, 2),
    (BOB, "site_limit", 5, 2),
    (CAROL, "site_limit", 5, 0),
]
COUNTED = {ALICE: 3, BOB: 2, CAROL: 0}
REFUSED = {ALICE: 2, BOB: 1, CAROL: 1}
OF_VISITOR, OF_SITE = 3, 5
SMALL = {"PENNYGATE_VISITOR_LIMIT": str(OF_VISITOR), "PENNYGATE_SITE_LIMIT": str(OF_SITE)}


def lines(server):
    """The log's line of each request: (the visitor's name of the day, the code)."""
    return re.findall(r"subject=([0-9a-f]{16}) code=(\w+)", server.log())


def counted(place, address):
    """What the store's own row of an address and today says; None if there is no row."""
    day = int(time.time() // 86400)
    name = storefile.hash_of(place, storefile.DAY_CODE, day, storefile.ADDRESS,
                             b"\4" + socket.inet_aton(address))
    found = [calls for (_, subject, row), calls in storefile.day_rows(place).items()
             if (subject, row) == (storefile.ADDRESS, name)]
    assert len(found) < 2
    return found[0] if found else None


@pytest.mark.parametrize("stream", [False, True])
def test_the_trace_of_reference_system_a(shipped, model, mode, stream):  # noqa: F811
    place = shipped(CONFIG, **SMALL)
    server = place.start(mode)
    for n, (who, refused, of_site, own) in enumerate(TRACE, 1):
        if refused:
            place.settled()
        before = place.data()
        answer = server.chat(source=who, stream=stream)
        if refused:
            assert (answer.status, answer.code) == (429, refused)
            assert 0 < int(answer.header("Retry-After")) <= 86400
            assert place.data() == before, "a refusal writes nothing"
        else:
            assert answer.status == 200
        assert answer.header("X-RateLimit-Limit") == str(OF_VISITOR)
        assert answer.header("X-RateLimit-Remaining") == str(OF_VISITOR - own)
        assert place.used("site-day") == of_site == model.count
        assert len(until(lambda n=n: len(lines(server)) == n and lines(server), 5, "its line")) == n
    assert [counted(place, who) for who in COUNTED] == [used or None for used in COUNTED.values()]
    day = place.day()
    assert day["admitted"] == OF_SITE
    assert day["refused"]["address"] == 2
    assert day["refused"]["site"] == 2
    assert sum(day["refused"].values()) == sum(REFUSED.values())
    for who, refused in REFUSED.items():
        names = {name for (name, _), step in zip(lines(server), TRACE) if step[0] == who}
        assert len(names) == 1, "one visitor has one name all day"
        codes = [code for name, code in lines(server) if name in names]
        assert codes == [step[1] or "ok" for step in TRACE if step[0] == who]
        assert sum(code != "ok" for code in codes) == refused


def test_the_visitor_is_told_of_its_own_limit_first(shipped, model):  # noqa: F811
    """Also once the site's is spent: alice is over both, bob only over the site's."""
    place = shipped(CONFIG, **SMALL)
    server = place.start()
    for who in [ALICE] * 3 + [BOB] * 2:
        assert server.chat(source=who).status == 200
    assert server.chat(source=ALICE).code == "address_limit"
    assert server.chat(source=BOB).code == "site_limit"


def test_what_is_shipped_is_600_a_day_for_the_site(shipped, model):  # noqa: F811
    """60 visitors with 10 calls each, and not one more."""
    place = shipped(CONFIG)
    server = place.start(procs=2)

    def visit(host):
        for _ in range(10):
            assert server.chat(source=f"127.0.9.{host}").status == 200

    visitors = [threading.Thread(target=visit, args=(1 + n,)) for n in range(60)]
    for group in (visitors[at:at + 8] for at in range(0, 60, 8)):
        for visitor in group:
            visitor.start()
        for visitor in group:
            visitor.join()
    assert model.count == 600 == place.used("site-day")
    assert server.chat(source=ALICE).code == "site_limit"
    assert model.count == 600


def test_what_is_shipped_is_40_a_day_for_a_visitor(clock, model):  # noqa: F811
    """Ten at a time, because visitor-burst is there, too."""
    now = clock(MIDNIGHT - 600 * SECOND, fill=lambda place: fill(place, CONFIG))
    for n in range(4):
        assert now.statuses(10) == [200] * 10
        now.to(MIDNIGHT - (600 - 60 * (n + 1)) * SECOND)
    answer = now.server.chat()
    assert (answer.status, answer.code) == (429, "address_limit")
    assert (answer.header("X-RateLimit-Limit"), answer.header("X-RateLimit-Remaining")) == ("40", "0")
    now.to(MIDNIGHT)
    assert now.statuses(1) == [200]


def test_it_is_counted_before_the_model_is_called(shipped, model):  # noqa: F811
    place = shipped(CONFIG)
    server = place.start()
    model.set(first_ms=20000)
    call = server.begin(parts=True)  # lighttpd sees its end then, see test_leaving.py
    until(lambda: model.stats()["open"] == 1, 5, "the call of the model")
    assert (place.used("site-day"), counted(place, "127.0.0.1")) == (1, 1)
    call.close()
    until(lambda: model.stats()["open"] == 0, 5, "its end")


def test_a_race_of_eight_processes(shipped, model):  # noqa: F811
    """40 visitors with ten calls each at once, and room for 200. tests/unit/test_race.c has eight
    processes with 500 calls each, which come to 4000 distinct values."""
    place = shipped(CONFIG, PENNYGATE_SITE_LIMIT="200")
    server = place.start(procs=8)
    statuses, lock = [], threading.Lock()

    def visit(host):
        for _ in range(10):
            status = server.chat(source=f"127.0.8.{host}").status
            with lock:
                statuses.append(status)

    visitors = [threading.Thread(target=visit, args=(1 + n,)) for n in range(40)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert len(statuses) == 400 and set(statuses) == {200, 429}
    assert statuses.count(200) == model.count == 200 == place.used("site-day")
    own = [calls for (_, subject, _), calls in storefile.day_rows(place).items()
           if subject == storefile.ADDRESS]
    assert sum(own) == 200 and max(own) <= 10


def test_rows_older_than_a_week_go_with_the_first_call_of_a_day(clock, model):  # noqa: F811
    """No cron job: each day has its visitors, and its rows are gone when it is a week old. Ended
    rows are looked for every few seconds of real time, which stands still here: hence a fresh
    process each day."""
    now = clock(MIDNIGHT - 3600 * SECOND, fill=lambda place: fill(place, CONFIG))
    step, ends = datetime.timedelta(hours=23, minutes=59), set()
    for day in range(12):
        now.server.stop()
        now.to(MIDNIGHT + 43260 * SECOND + day * step)  # a date ends twelve hours late
        now.server = now.place.start()
        moment = (MIDNIGHT + 43260 * SECOND + day * step).timestamp() * 1000
        assert now.server.chat(source=ALICE).status == 200
        found = {end for end, _, _ in storefile.day_rows(now.place)}
        assert all(moment - end < 7 * 86400000 for end in found), f"day {day}"
        for host in range(1, 4):
            assert now.server.chat(source=f"127.0.7.{host}").status == 200
        ends |= found
    assert len(ends) == 12
    left = {end for end, _, _ in storefile.day_rows(now.place)}
    assert len(left) == 9, "a week, the day that has not ended in every zone, and today"


def test_a_fault_of_the_meter_declines(shipped, model):  # noqa: F811
    """And the page has what it needs to fall back: a status, a code, a time to come again."""
    place = shipped(CONFIG)
    server = place.start()
    assert server.chat().status == 200
    place.store.rename(place.directory / "away")
    answer = server.chat()
    assert (answer.status, answer.code) == (503, "meter_unavailable")
    assert int(answer.header("Retry-After")) > 0
    assert model.count == 1 and not place.store.exists()
    (place.directory / "away").rename(place.store)
    until(lambda: server.chat().status == 200, 5, "service")


def search(names, key):
    """How a thief looks for an address of a /16 in what he has: each of the 65,536 under every
    hash that needs no more than the store and the file of period keys. The addresses found."""
    forms = [
        lambda text, raw: storefile.sha256(text), lambda text, raw: storefile.sha256(raw),
        lambda text, raw: storefile.mac(key, b"subject", b"\0\4" + raw),
        lambda text, raw: storefile.mac(b"", b"subject", b"\0\4" + raw)]
    found = []
    for high in range(256):
        for low in range(256):
            text, raw = f"127.0.{high}.{low}".encode(), bytes([127, 0, high, low])
            if any(form(text, raw)[:16] in names for form in forms):
                found.append(text.decode())
    return found


def test_a_stolen_table_cannot_be_searched(shipped, model):  # noqa: F811
    """An unkeyed hash is found; the rows' are not, though the search is of the right form: with
    the secret it finds them all. Nor is an address there as it is."""
    place = shipped(CONFIG)
    server = place.start()
    visitors = [f"127.0.{n}.{200 - n}" for n in range(1, 8)]
    for visitor in visitors:
        assert server.chat(source=visitor).status == 200
    names = {name for _, subject, name in storefile.day_rows(place) if subject == storefile.ADDRESS}
    assert len(names) == len(visitors)
    day = int(time.time() // 86400)
    key = storefile.period_key(place, storefile.DAY_CODE, day)
    assert search({storefile.sha256(b"127.0.44.202")[:16]}, key) == ["127.0.44.202"]
    assert search(names, key) == []
    assert names == {storefile.hash_of(place, storefile.DAY_CODE, day, storefile.ADDRESS,
                                       b"\4" + socket.inet_aton(visitor)) for visitor in visitors}
