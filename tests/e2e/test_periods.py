"""Nobody is in the store: keys of periods that have ended are found nowhere in its directory, and
nothing of a caller is, at any time. The program's clock is moved a day at a time by clock_shim.c,
so that no step is one that the store would mistrust."""
import datetime
import socket

import pytest

from direct import fastcgi
from harness import limit, until
from test_midnight import HOUR, MIDNIGHT, SECOND, clock  # noqa: F401: a fixture
from test_reference_a import lines

HEAD, ENTRY, KEY, MAC = 26, 52, 32, 32
STEP = datetime.timedelta(hours=23, minutes=59)
WINDOWS = ["10s", "1h", "day", "7d", "month"]


def keys(place):
    """The period keys by window: the file's entries are code, generation, period, key."""
    data = place.periods.read_bytes()
    entries = [data[at:at + ENTRY] for at in range(HEAD, len(data) - MAC, ENTRY)]
    assert len(entries) == data[9]
    return {entry[:4]: entry[-KEY:] for entry in entries}


def everything(place):
    """All bytes of all files below the store, the run directory's among them, and their names."""
    files = [path for path in place.store.rglob("*") if path.is_file()]
    assert {"data.mdb", "lock.mdb", "periods", "mark", "live", "board"} <= {path.name for path in files}
    return b"".join(str(path).encode() + path.read_bytes() for path in files)


def test_keys_of_ended_periods_are_found_nowhere(clock, model):  # noqa: F811
    """Each window's key is gone once its last window has ended, those of longer windows stay, and
    while it is needed it is there: otherwise the search could not find anything at all."""
    now = clock(MIDNIGHT - 2 * HOUR, limits={
        f"w{window}": limit("address", "calls", window, 1000) for window in WINDOWS})
    assert now.statuses(2) == [200, 200]
    seen, last = {}, {}
    for day in range(35):
        for code, key in keys(now.place).items():
            if last.get(code) != key:
                seen.setdefault(code, []).append(key)
                last[code] = key
        now.to(MIDNIGHT + 14 * HOUR + day * STEP)  # dates end twelve hours late, for every zone
        assert now.statuses(1) == [200]
        held, current = everything(now.place), keys(now.place)
        assert all(key in held for key in current.values())
        for code, old in seen.items():
            for key in old:
                assert (key in held) == (key == current[code]), f"day {day}, window {code.hex()}"
    month, week, *days = sorted(len(old) for old in seen.values())
    assert 2 <= month <= 3 and 29 <= week <= 32 and days == [35, 35, 35]


def test_a_stopped_gateway_ends_them_when_it_starts_again(clock, model):  # noqa: F811
    """By the first admission, and by the timed work of the command line without any."""
    now = clock(MIDNIGHT - 2 * HOUR, limits={"mine": limit("address", "calls", "10s", 1000)})
    assert now.statuses(1) == [200]
    for day, by in enumerate(["admission", "maintain"]):
        old = set(keys(now.place).values())
        now.server.stop()
        held = everything(now.place)
        assert all(key in held for key in old)
        now.to(MIDNIGHT + 14 * HOUR + day * STEP)
        if by == "maintain":
            now.place.run("maintain")
        else:
            now.server = now.place.start()
            assert now.statuses(1) == [200]
            now.server.stop()
        assert not any(key in everything(now.place) for key in old), by


ADDRESS = "2001:db8:5a17:77e1:c0de:1234:5678:9abc"
WORDS = "zebra crossing umbrella"


@pytest.mark.parametrize("settings", [{}, {"usage": "none"}, {"status": 500}, {"cut": "middle"}])
def test_nothing_of_a_caller_is_in_the_store_or_the_log(site, model, settings):
    """Neither the address, as text or bytes, nor what was asked or answered, nor the secret. It is
    an IPv6 address, since four bytes can be anywhere by chance."""
    model.set(text="forty purple elephants", **settings)
    place = site()
    server = place.start("external")
    body = {"messages": [{"role": "user", "content": WORDS}]}
    for stream in (False, True):
        fastcgi(place, body={**body, "stream": stream}, address=ADDRESS)
    assert fastcgi(place, body={"messages": [{"role": "user", "content": WORDS * 200}]}, address=ADDRESS).status == 400
    until(lambda: place.stats_of("open_streams") == 0, 5, "the end of the streams")
    place.run("maintain")
    server.stop()  # so that every line is in the log
    held, log = everything(place), server.log().encode()
    raw = socket.inet_pton(socket.AF_INET6, ADDRESS)
    for secret in (ADDRESS.encode(), ADDRESS[:19].encode(), raw[:8], raw, b"zebra", b"elephants", b"sk-practice",
                   b"practice-large", place.secret.read_bytes().strip(),
                   bytes.fromhex(place.secret.read_text(encoding="ascii").strip())):
        assert secret not in held
        assert secret not in log
    assert b"$" not in log and b"price" not in log and b"cost" not in log
    assert log.count(b"subject=") == 3


def test_log_names_change_daily(clock, model):  # noqa: F811
    now = clock(MIDNIGHT - 5 * SECOND)
    names = []
    for moment in (MIDNIGHT - 5 * SECOND, MIDNIGHT - 4 * SECOND, MIDNIGHT + 1 * SECOND):
        now.to(moment)
        assert now.statuses(1) == [200]
        seen = until(lambda: len(lines(now.server)) > len(names) and lines(now.server), 5, "a line")
        names.append(seen[-1][0])
    assert names[0] == names[1] != names[2]
    assert all(len(name) == 16 for name in names)
    assert now.place.stats()["today"] == str((MIDNIGHT + datetime.timedelta(hours=1)).date())
