"""Who is counted as whom, through lighttpd: addresses behind proxies, visitors by their cookie,
accounts and keys."""
import base64
import re

import pytest

from direct import fastcgi
from harness import limit
from test_midnight import MIDNIGHT, SECOND, clock  # noqa: F401: a fixture

DAY = 86400
TRUSTED = {"trusted-proxies": ["127.0.0.1", "10.0.0.0/8"]}


def only(per, maximum, **more):
    return {"own": limit(per, "calls", "day", maximum), **more}


def forwarded(value, name="X-Forwarded-For"):
    return [(name, value)]


def statuses(server, headers, times):
    return [server.chat(headers=headers).status for _ in range(times)]


# ---- addresses ----

def test_f37_a_forwarding_header_from_anybody_is_not_believed(gate):
    server = gate(limits=only("address", 2))
    assert [server.chat(headers=forwarded(f"192.0.2.{n}")).status for n in range(3)] == [200, 200, 429]


def test_f37_it_is_believed_from_a_trusted_proxy(gate, mode):
    server = gate(mode, limits=only("address", 1), options=TRUSTED)
    assert statuses(server, forwarded("192.0.2.1"), 2) == [200, 429]
    assert statuses(server, forwarded("192.0.2.2"), 2) == [200, 429]


@pytest.mark.parametrize("value, why", [
    ("198.51.100.7, 192.0.2.1", "what stands left of the caller is its own words"),
    ("192.0.2.1, 10.1.2.3", "a proxy before the proxy"),
    (" 192.0.2.1 ,10.1.2.3,10.1.2.4", "blanks or none"),
    ("192.0.2.1:4711", "with a port"),
    ("::ffff:192.0.2.1", "F39 mapped"),
    ("[::ffff:192.0.2.1]:4711", "F39 mapped, in brackets"),
])
def test_f37_the_list_is_read_from_the_right(gate, value, why):
    server = gate(limits=only("address", 1), options=TRUSTED)
    assert statuses(server, forwarded("192.0.2.1"), 1) == [200]
    assert statuses(server, forwarded(value), 1) == [429], why


@pytest.mark.parametrize("headers", [
    forwarded("192.0.2.{n}, nonsense"), forwarded("192.0.2.{n}, "), forwarded("unknown"), [],
    [*forwarded("198.51.100.{n}"), *forwarded("192.0.2.{n}", "X_Forwarded_For")],
    forwarded("for=192.0.2.{n}", "Forwarded")])
def test_f37_what_cannot_be_read_is_the_peer(gate, headers):
    """Nobody gets a fresh quota by garbage, by a second header, or by the header not chosen."""
    server = gate(limits=only("address", 2), options=TRUSTED)
    given = [[(name, value.format(n=n)) for name, value in headers] for n in (1, 2, 3)]
    assert [server.chat(headers=one).status for one in given] == [200, 200, 429]


@pytest.mark.parametrize("name, form", [("X-Forwarded-For", "{}"), ("Forwarded", "for={}")])
def test_f37_of_two_headers_of_one_name_the_later_is_the_proxys(gate, mode, name, form):
    """lighttpd joins them in their order: what the caller sent stands left of what the proxy added."""
    server = gate(mode, limits=only("address", 1), options={**TRUSTED, "proxy-header": name.lower()})
    given = [[(name, form.format(f"198.51.100.{n}")), (name, form.format("192.0.2.1"))] for n in range(3)]
    assert [server.chat(headers=one).status for one in given] == [200, 429, 429]
    assert server.chat(headers=[(name, form.format("192.0.2.2"))]).status == 200


def test_the_other_header_can_be_chosen(gate):
    server = gate(limits=only("address", 1), options={**TRUSTED, "proxy-header": "forwarded"})
    assert statuses(server, forwarded("for=192.0.2.1;proto=https", "Forwarded"), 2) == [200, 429]
    assert statuses(server, forwarded('for="[2001:db8::1]:80"', "Forwarded"), 2) == [200, 429]
    assert statuses(server, forwarded("192.0.2.9"), 1) == [200]  # the peer itself


def test_f39_every_spelling_and_host_of_one_network_is_one_subject(gate):
    server = gate(limits=only("address", 1), options=TRUSTED)
    for first, *others in (("2001:db8::1", "2001:DB8:0:0::1", "2001:db8::ffff:1:2:3", "[2001:db8::9]:80"),
                           ("203.0.113.5", "::ffff:203.0.113.5", "203.0.113.5:80", "::FFFF:cb00:7105")):
        assert server.chat(headers=forwarded(first)).status == 200
        for other in others:
            assert server.chat(headers=forwarded(other)).status == 429, other
    assert server.chat(headers=forwarded("2001:db8:0:1::1")).status == 200


def test_f38_a_proxy_that_is_not_trusted_is_noticed(gate):
    """A forwarding header from a private address: most likely all visitors share it."""
    server = gate()
    for headers in (forwarded("192.0.2.1"), forwarded("for=192.0.2.1", "Forwarded"), []):
        assert server.chat(headers=headers).status == 200
    assert server.site.day()["proxied"] == 2


# ---- visitors ----

def cookie_of(answer):
    """What a browser sends back, and the attributes."""
    text = answer.header("Set-Cookie")
    if text is None:
        return None, []
    value, *attributes = text.split("; ")
    return [("Cookie", value)], attributes


def visitors(gate, maximum=2, mode="spawned", **more):
    limits = {**only("visitor", maximum), **more.pop("limits", {})}
    return gate(mode, limits=limits, **more)


def test_a_visitor_is_known_by_its_cookie(gate, mode):
    server = visitors(gate, mode=mode)
    first = server.chat()
    cookie, attributes = cookie_of(first)
    assert set(attributes) == {"Path=/", f"Max-Age={30 * DAY}", "HttpOnly", "SameSite=Lax"}
    assert re.fullmatch(r"pennygate_[0-9a-f]{8}=1\.[\w.-]+", cookie[0][1])
    answers = [server.chat(headers=cookie) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].code == "visitor_limit"
    assert all(answer.header("Set-Cookie") is None for answer in answers)


def test_the_cookie_comes_with_an_admitted_answer_only(gate, model):
    """Whoever is refused, or asks nothing, gets no fresh identity and leaves no trace."""
    server = visitors(gate, maximum=1)
    stream = server.chat(stream=True)
    assert stream.status == 200 and cookie_of(stream)[0]
    for answer in (server.chat(), server.get("/status"), server.get("/v1/models"),
                   server.open("POST", "/v1/chat/completions", b"{").answer()):
        assert answer.header("Set-Cookie") is None
    cookie, _ = cookie_of(stream)
    model.set(status=500)
    assert server.chat(headers=cookie).status == 502


def test_the_cookie_comes_also_if_the_model_fails_then(gate, model):
    server = visitors(gate)
    model.set(status=500)
    answer = server.chat()
    assert answer.status == 502 and cookie_of(answer)[0]


def test_without_a_limit_per_visitor_there_is_no_cookie(gate):
    assert gate().chat().header("Set-Cookie") is None


def test_f40_dropping_the_cookie_gains_nothing(gate):
    server = visitors(gate, maximum=3)
    answers = [server.chat() for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[3].code == "visitor_limit"
    # another address without one has its own share
    assert server.chat(source="127.0.0.9").status == 200


def test_f40_nor_does_another_address_of_ones_own_network(gate):
    """Who shows no cookie shares with the whole /64; who shows one is known by it anywhere."""
    server = visitors(gate, maximum=2, options=TRUSTED)
    first, second, third = (server.chat(headers=forwarded(f"2001:db8::{n}")) for n in (1, 2, 3))
    assert (first.status, second.status, third.code) == (200, 200, "visitor_limit")
    cookie, _ = cookie_of(first)
    answers = [server.chat(headers=[*cookie, *forwarded(f"2001:db8:0:{n}::1")]) for n in (1, 2, 3)]
    assert [answer.status for answer in answers] == [200, 200, 429]


def test_f40_one_office_is_not_locked_out_by_one_of_it(gate):
    server = visitors(gate, maximum=2)
    ann, bob = (cookie_of(server.chat())[0] for _ in range(2))
    assert statuses(server, ann, 3) == [200, 200, 429]
    assert statuses(server, bob, 3) == [200, 200, 429]


def test_f41_cookies_that_do_not_count(gate, site, model):
    server = visitors(gate, maximum=1)
    (_, good), = cookie_of(server.chat())[0]  # the share of those without is used up
    (_, foreign), = cookie_of(site(limits=only("visitor", 5)).start().chat())[0]
    name, value = good.split("=")
    version, number, day, mac = value.split(".")
    flipped = ("A" if number[0] != "A" else "B") + number[1:]
    for bad in (f"{name}={foreign.split('=')[1]}", foreign, f"{name}={value[:-1]}",
                f"{name}={value}A", f"{name}={version}.{flipped}.{day}.{mac}",
                f"{name}={version}.{number}.{int(day) + 1}.{mac}", f"{name}=2.{number}.{day}.{mac}",
                f"{name}=", name, f"{name.upper()}={value}", f"{name}={value}; {name}={value}",
                f"{name}={value * 60}"):
        assert server.chat(headers=[("Cookie", bad)]).code == "visitor_limit", bad
    both = [("Cookie", good), ("Cookie", good)]
    assert server.chat(headers=both).code == "visitor_limit"
    assert server.chat(headers=[("Cookie", f"a=b; {good}; c=d")]).status == 200


@pytest.mark.parametrize("days, counts, renewed", [
    (6, True, False), (7, True, True), (30, True, True), (31, False, True), (400, False, True), (-2, False, True)])
def test_f41_a_cookie_has_its_time(clock, model, days, counts, renewed):  # noqa: F811
    """Renewed after a week with the same number. Too old it is none, nor is one that a clock made
    which was ahead and has been put right since."""
    begin = MIDNIGHT + 10 * DAY * SECOND + 3600 * SECOND
    now = clock(begin, limits=only("visitor", 1))
    cookie, _ = cookie_of(now.server.chat())
    now.to(begin + days * DAY * SECOND)
    assert now.server.chat(source="127.0.0.9").status == 200, "the share of all who show none, elsewhere"
    answer = now.server.chat(headers=cookie, source="127.0.0.9")
    assert answer.status == (200 if counts else 429)
    fresh, _ = cookie_of(answer)
    assert (fresh is not None) == (counts and renewed)
    if fresh:
        number = [one[0][1].split("=")[1].split(".")[1] for one in (cookie, fresh)]
        assert number[0] == number[1]
        assert now.server.chat(headers=fresh, source="127.0.0.9").code == "visitor_limit", "it is the same visitor"


def test_f41_the_cookie_is_not_for_the_model(gate, model):
    server = visitors(gate)
    cookie, _ = cookie_of(server.chat())
    assert server.chat(headers=cookie).status == 200
    assert "pennygate_" not in str(model.stats()["last"])
    server.stop()  # so that every line is in the log
    assert cookie[0][1] not in server.log()


def test_a_widget_on_another_origin_gets_a_cookie_that_can_cross(gate):
    server = visitors(gate, options={"cookie-cross-site": "yes",
                                     "allowed-origins": ["https://page.example"]})
    answer = server.chat(headers=[("Origin", "https://page.example")])
    assert {"SameSite=None", "Secure", "Partitioned", "HttpOnly"} <= set(cookie_of(answer)[1])


def test_behind_a_proxy_that_speaks_https_the_cookie_is_secure(gate):
    secure = [("X-Forwarded-Proto", "https")]
    server = visitors(gate, options=TRUSTED)
    assert "Secure" in cookie_of(server.chat(headers=secure))[1]
    assert "Secure" not in cookie_of(server.chat())[1]
    other = visitors(gate)
    assert "Secure" not in cookie_of(other.chat(headers=secure))[1], "anybody can say so"


# ---- accounts ----

def basic(name, word):
    return [("Authorization", "Basic " + base64.b64encode(f"{name}:{word}".encode()).decode())]


def test_each_account_has_its_own(site, model):
    place = site(limits=only("account", 2))
    place.users = {"ann": "a", "bob": "b"}
    server = place.start()
    assert statuses(server, basic("ann", "a"), 3) == [200, 200, 429]
    answer = server.chat(headers=basic("ann", "a"), source="127.0.0.9")
    assert answer.code == "account_limit", "wherever she is"
    assert statuses(server, basic("bob", "b"), 1) == [200]
    assert statuses(server, [("Remote-User", "ann")], 3) == [200] * 3, "no client's header makes one"


def test_an_account_has_one_quota_however_it_is_spelt(site, model):
    """To LDAP ann and Ann are one, and REMOTE_USER is as its user has typed it."""
    place = site(limits=only("account", 1), options={"require": "account"})
    place.start("external")
    spellings = ("ann", "Ann", "aNN", "ann ", " ANN")
    assert [fastcgi(place, REMOTE_USER=name).status for name in spellings] == [200] + [429] * 4
    place.settled()
    place.run("forgive", "account", "ANN")
    assert fastcgi(place, REMOTE_USER="Ann").status == 200
    assert fastcgi(place, REMOTE_USER="anna").status == 200
    assert fastcgi(place, REMOTE_USER=" ").status == 401


def test_who_has_an_account_or_a_key_is_no_visitor(site, model):
    """Counted by that, wherever the browser or program is, and given no cookie."""
    place = site(limits=only("visitor", 1))
    place.users = {"ann": "a"}
    server = place.start()
    key = bearer(add_key(place, "tool"))
    assert statuses(server, [], 2) == [200, 429], "the visitor's is spent"
    assert statuses(server, basic("ann", "a"), 3) == [200] * 3
    assert statuses(server, key, 3) == [200] * 3
    assert server.chat(headers=key).header("Set-Cookie") is None


def test_anonymous_is_everybody_without_account_and_key(site, model):
    place = site(limits=only("anonymous", 2))
    place.users = {"ann": "a"}
    server = place.start()
    answers = [server.chat(source=f"127.0.0.{n}") for n in (2, 3, 4)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].code == "anonymous_limit"
    assert '"own"' not in str(answers[2].headers), "nobody learns how all others stand"
    assert statuses(server, basic("ann", "a"), 2) == [200, 200]
    assert statuses(server, bearer(add_key(place, "tool")), 2) == [200, 200]
    assert statuses(server, [("Authorization", "Bearer sk-any")], 1) == [429], "a token that is no key is nobody's"


# ---- keys ----

def add_key(place, name, *more):
    return re.search(r"pg_[\w-]+", place.run("keys", "add", name, *more))[0]


def bearer(token):
    return [("Authorization", f"Bearer {token}")]


@pytest.mark.parametrize("required", ["none", "key"])
def test_a_key_counts_for_itself_and_can_be_revoked(site, model, mode, required):
    place = site(limits=only("key", 2), options={"require": required})
    server = place.start(mode)
    ann, bob = add_key(place, "ann"), add_key(place, "bob")
    answers = [server.chat(headers=bearer(ann), source=f"127.0.0.{n}") for n in (2, 3, 4)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].code == "key_limit"
    assert statuses(server, bearer(bob), 1) == [200]
    place.run("keys", "revoke", "bob")
    assert server.chat(headers=bearer(bob)).code == "unauthorized"
    assert server.chat(headers=bearer(ann[:-1])).code == "unauthorized"
    server.stop()  # so that every line is in the log
    for token in (ann, bob):
        assert token not in server.log() and token.encode() not in place.data_file.read_bytes()
        assert token not in str(model.stats()["last"])


def test_a_keys_own_limits_take_the_place_of_the_common_ones(site, model):
    place = site(limits=only("key", 1))
    server = place.start()
    more = add_key(place, "more", "--limit", "calls/day=3")
    answers = [server.chat(headers=bearer(more)) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert answers[0].header("X-RateLimit-Limit") == "3"
