"""Reference system A: a counter per visitor and day and one for the site and day, request by
request, with limits 3 and 5. Refused requests are counted apart and raise no counter."""
import re

import pytest

from harness import limit, until

ALICE, BOB, CAROL = "127.0.0.11", "127.0.0.12", "127.0.0.13"

# who asks, what is answered, afterwards: the site's counter and the visitor's own
TRACE = [
    (ALICE, None, 1, 1), (ALICE, None, 2, 2), (ALICE, None, 3, 3),
    (ALICE, "address_limit", 3, 3), (ALICE, "address_limit", 3, 3),
    (BOB, None, 4, 1), (BOB, None, 5, 2),
    (BOB, "site_limit", 5, 2),
    (CAROL, "site_limit", 5, 0),
]
REFUSED = {ALICE: 2, BOB: 1, CAROL: 1}
OF_VISITOR, OF_SITE = 3, 5


def lines(server):
    """The log's line of each request: (the visitor's name of the day, the code)."""
    return re.findall(r"subject=([0-9a-f]{16}) code=(\w+)", server.log())


@pytest.mark.parametrize("stream", [False, True])
def test_the_trace_of_reference_system_a(site, model, mode, stream):
    place = site(limits={
        "visitor-day": limit("address", "calls", "day", OF_VISITOR),
        "site-day": limit("everyone", "calls", "day", OF_SITE),
    })
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
