"""What the README says of privacy: nothing that tells who somebody is can be found in any file of a
site that keeps no transcripts, or in its log, whatever the caller is known by."""
import base64
import socket

import pytest

import storefile
from examples import account, cookie, shipped  # noqa: F401: a fixture
from harness import until
from test_periods import everything

NAME, FIRST, SECOND = "alice-in-wonderland", "127.77.88.99", "127.77.88.98"
ASKED, ANSWERED = "zebra crossing umbrella", "forty purple elephants"


@pytest.fixture
def visited(shipped, model):  # noqa: F811
    """A site that an account and a visitor with and without a cookie have used, and all answers."""
    model.set(text=ANSWERED)
    place = shipped("cost-window.conf")
    alice = account(place, NAME)
    server = place.start("external")
    first = server.chat(ASKED, source=FIRST)
    answers = [first, server.chat(ASKED, source=SECOND, headers=[cookie(first)]),
               server.chat(ASKED, source=SECOND, headers=[alice], stream=True),
               server.chat(ASKED, source=FIRST, headers=[alice])]
    assert [one.status for one in answers] == [200] * 4
    place.settled()
    place.run("maintain")
    until(lambda: server.log().count("subject=") == len(answers), 5, "the lines")
    return place, server, answers


def test_nothing_tells_who_somebody_is(visited):
    place, server, answers = visited
    value = cookie(answers[0])[1].partition("=")[2]
    _, number, _, mac = value.split(".")
    plain = [NAME, base64.b64encode(f"{NAME}:of-{NAME}".encode()).decode(), value, number, mac, ASKED, ANSWERED,
             *ASKED.split(), *ANSWERED.split(), FIRST, SECOND]
    raw = [socket.inet_aton(FIRST), socket.inet_aton(SECOND), base64.urlsafe_b64decode(number + "=="),
           base64.urlsafe_b64decode(mac + "==")]
    held = everything(place)
    log = b"\n".join(line for line in server.log().encode().splitlines() if b"pennygate" in line)
    for secret in [*(text.encode() for text in plain), *raw]:
        assert secret not in held and secret not in log, secret
    assert log.count(b"subject=") == len(answers)


def test_every_row_is_of_a_kind_that_the_readme_lists(visited):
    """Counters of the callers are 16 bytes of hash each; those that all share have none. No caller's
    hash in one window is its hash in another."""
    place, _, _ = visited
    known = {storefile.META, storefile.HISTORY, storefile.DAY, storefile.COUNTER}
    counters = []
    for key, _ in storefile.rows(place):
        assert key[0] in known, "nothing is under way"
        if key[0] in (storefile.DAY, storefile.COUNTER):
            counters.append((key[9:-17], key[-17], key[-16:]))
    shared = {name for _, subject, name in counters if subject in (storefile.ANONYMOUS, storefile.EVERYONE)}
    assert shared == {bytes(16)}
    own = {(window, name) for window, subject, name in counters if name != bytes(16)}
    assert len({name for _, name in own}) == len(own)
    by_subject = {subject: {name for _, one, name in counters if one == subject} for subject in range(4)}
    # 2 addresses in 3 windows, 2 visitors in 2, 1 account in 2
    assert [len(by_subject[subject]) for subject in range(4)] == [6, 4, 2, 0]


def test_the_cookie_comes_once_and_with_what_was_admitted(visited):
    _, server, answers = visited
    flags = answers[0].header("Set-Cookie").split("; ")[1:]
    assert set(flags) == {"Path=/", f"Max-Age={30 * 86400}", "HttpOnly", "SameSite=Lax"}
    assert answers[1].header("Set-Cookie") is None, "it has one"
    refused = server.chat("x" * 20001, source=FIRST)
    assert refused.status == 400 and refused.header("Set-Cookie") is None
