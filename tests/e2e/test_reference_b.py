"""Reference system B, by platform/examples/cost-window.conf: money in sliding windows, per address,
per account and for the site, with a budget of their own for those who have not signed in."""
import threading

import pytest

from examples import account, cookie, fill, hook, shipped  # noqa: F401: fixtures
from harness import until
from test_midnight import MIDNIGHT, SECOND, clock  # noqa: F401: a fixture

CONFIG = "cost-window.conf"
DOLLAR = 10**9  # in nano-dollars
INPUT, OUTPUT, CAP, PER_CALL, PER_MESSAGE = 2500, 10000, 500, 64, 16  # prices in nano-dollars a token
AN_HOUR = 3600 * SECOND


def worst(text, messages=1):
    """What a call with this text is charged before it is made."""
    tokens = len(text.encode()) + PER_CALL + PER_MESSAGE * messages
    return tokens * INPUT + CAP * OUTPUT


def real(tokens_in, tokens_out):
    return tokens_in * INPUT + tokens_out * OUTPUT


LONG = "a long question. " * 1176  # 19,992 characters


@pytest.mark.parametrize("tokens_in, tokens_out, dollars", [(500, 100, "0.045"), (100000, 4000, "5.80")])
def test_what_20_requests_cost(site, model, tokens_in, tokens_out, dollars):  # noqa: F811
    """The two kinds of request of the publication, at its prices, as the provider reports them: the
    same count, 129 times the cost."""
    place = site(demo={"price-input": "$2.50", "price-output": "$10.00", "max-output-tokens": CAP},
                 request={"max-message-chars": 20000, "max-input-chars": 20000})
    server = place.start()
    model.set(prompt_tokens=tokens_in, completion_tokens=tokens_out)
    for _ in range(20):
        assert server.chat(LONG).status == 200
    day = place.settled()
    assert (day["tokens_in"], day["tokens_out"]) == (20 * tokens_in, 20 * tokens_out)
    assert day["cost_nano"] == 20 * real(tokens_in, tokens_out)
    assert f"{day['cost_nano'] / DOLLAR:.3f}" == f"{float(dollars):.3f}"
    assert round(real(100000, 4000) / real(500, 100)) == 129


def test_the_worst_case_is_priced_before_the_call_and_the_rest_given_back(shipped, model):  # noqa: F811
    place = shipped(CONFIG)
    alice = account(place, "alice")
    server = place.start()
    model.set(first_ms=20000)
    call = server.begin(LONG, headers=[alice], parts=True)  # see test_leaving.py
    until(lambda: model.stats()["open"] == 1, 5, "the call of the model")
    assert place.used("site-spend") == worst(LONG)
    call.close()
    place.settled()
    model.set(first_ms=0, prompt_tokens=4000, completion_tokens=100)
    assert server.chat(LONG, headers=[alice]).status == 200
    place.settled()
    assert place.used("site-spend") == worst(LONG) + real(4000, 100), "the first gave no usage"


@pytest.mark.parametrize("text", [
    "plain words, four characters to the token", "海水为什么是咸的？" * 50, "🧂🌊" * 100, "👩‍👩‍👧‍👦" * 40, "é" * 300,
    "Z̸̢̛͓a̴l̵g̶o̷" * 20, "\u2028\u2029\ufeff" * 30, "\"\\\"\\\\" * 90, "مرحبا بالعالم " * 30, "\U0010ffff" * 64,
    "0x" + "7f" * 500], ids=range(11))
@pytest.mark.parametrize("escaped", [False, True])
def test_the_worst_case_is_an_upper_bound_whatever_is_written(shipped, model, text, escaped):  # noqa: F811
    """A token is at least a byte of what the model is sent, so it reports as many as that. A quarter
    of the characters, as published, would be less for most of these. JSON's escapes change
    nothing."""
    place = shipped(CONFIG)
    server = place.start("cgi")  # settles at once
    quoted = '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 65536 else surrogates(c) for c in text) + '"'
    body = '{"messages":[{"role":"user","content":%s}]}' % (quoted if escaped else quote(text))
    sizes = len(text.encode())
    model.set(prompt_tokens=sizes + PER_MESSAGE, completion_tokens=CAP)
    answer = server.open("POST", "/v1/chat/completions", body.encode(),
                         [("Content-Type", "application/json")]).answer()
    assert answer.status == 200
    day = place.settled()
    assert model.last["messages"] == [{"role": "user", "content": text}]
    assert day["cost_nano"] == real(sizes + PER_MESSAGE, CAP) <= worst(text)
    assert not any("bound" in line for line in server.log().splitlines())


def quote(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def surrogates(c):
    high, low = divmod(ord(c) - 0x10000, 0x400)
    return f"\\u{0xd800 + high:04x}\\u{0xdc00 + low:04x}"


def spend(server, text, headers, **options):
    """Asks until it is refused: (how many were admitted, the refusal)."""
    for n in range(200):
        answer = server.chat(text, headers=headers, **options)
        if answer.status != 200:
            return n, answer
    raise AssertionError("nobody refuses")


def test_an_account_is_counted_wherever_it_asks_from(shipped, model):  # noqa: F811
    """By four addresses together, and apart from another account at one of these."""
    model.set(usage="none")
    place = shipped(CONFIG)
    place.write(place.config.read_text(encoding="utf-8").replace("'$2.00'", "'$0.25'"))
    alice, bob = account(place, "alice"), account(place, "bob")
    server = place.start()
    fits = DOLLAR // 4 // worst(LONG)
    assert fits == 4
    for n in range(fits):
        assert server.chat(LONG, headers=[alice], source=f"127.0.5.{1 + n}").status == 200
    for source in ("127.0.5.1", "127.0.5.9"):
        assert server.chat(LONG, headers=[alice], source=source).code == "account_limit"
    assert server.chat(LONG, headers=[bob], source="127.0.5.1").status == 200


def test_a_window_slides(clock, model):  # noqa: F811
    """Two dollars until the edge of an hour, and none beyond it: a fixed window lets twice as much
    through. An hour later there is as much again."""
    model.set(usage="none")
    now = clock(MIDNIGHT - 90 * SECOND, fill=lambda place: (fill(place, CONFIG), account(place, "alice")))
    alice = account(now.place, "alice")
    admitted = 0

    def ask(moment):
        """As many as the burst of ten in ten seconds lets through."""
        now.to(moment)
        answers = [now.server.chat(LONG, headers=[alice]) for _ in range(9)]
        return sum(one.status == 200 for one in answers), answers[-1]

    for round_ in range(5):
        more, last = ask(MIDNIGHT - (90 - 15 * round_) * SECOND)
        admitted += more
    assert admitted == 2 * DOLLAR // worst(LONG) == 36
    assert (last.status, last.code) == (429, "account_limit")
    for after in (5, 600, 1800, 3400):
        assert ask(MIDNIGHT + after * SECOND)[0] == 0, after
    assert ask(MIDNIGHT + AN_HOUR * 9 // 8 + 60 * SECOND)[0] == 9


def test_a_refusal_says_when_it_ends(clock, model):  # noqa: F811
    """Retry-After of a limit in money is a whole minute, at least as long as it takes, and true."""
    model.set(usage="none")
    now = clock(MIDNIGHT - 600 * SECOND, fill=lambda place: (fill(place, CONFIG), account(place, "alice")))
    alice = account(now.place, "alice")
    for round_ in range(5):
        now.to(MIDNIGHT - (600 - 15 * round_) * SECOND)
        last = [now.server.chat(LONG, headers=[alice]) for _ in range(9)][-1]
    wait = int(last.header("Retry-After"))
    assert (last.code, wait % 60) == ("account_limit", 0) and 3000 < wait <= 4200
    assert last.header("x-should-retry") == "false"
    now.to(MIDNIGHT + (wait - 540) * SECOND)
    assert now.server.chat(LONG, headers=[alice]).status == 200


def test_ten_calls_in_ten_seconds(shipped, model):  # noqa: F811
    place = shipped(CONFIG)
    alice = account(place, "alice")
    server = place.start()
    answers = [server.chat("Hello", headers=[alice]) for _ in range(11)]
    assert [one.status for one in answers] == [200] * 10 + [429]
    refused = answers[-1]
    assert refused.code == "burst_limit" and 1 <= int(refused.header("Retry-After")) <= 12
    assert (refused.header("X-RateLimit-Limit"), refused.header("X-RateLimit-Remaining")) == ("10", "0")
    assert refused.header("X-RateLimit-Reset") == refused.header("Retry-After")
    assert model.count == 10


def test_nothing_overshoots_when_all_ask_at_once(shipped, model):  # noqa: F811
    """20 requests of one account from ten addresses at once, and room for three."""
    model.set(usage="none", first_ms=50)
    place = shipped(CONFIG)
    text = place.config.read_text(encoding="utf-8").replace("max = '$2.00'", "max = '$0.20'")
    place.write(text.replace("window = 10s  max = 10 }", "window = 10s  max = 100 }"))
    alice = account(place, "alice")
    server, statuses, lock = place.start(procs=3), [], threading.Lock()

    def ask(n):
        status = server.chat(LONG, headers=[alice], source=f"127.0.5.{1 + n % 10}").status
        with lock:
            statuses.append(status)

    callers = [threading.Thread(target=ask, args=(n,)) for n in range(20)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert set(statuses) == {200, 429}
    assert statuses.count(200) == model.count == DOLLAR // 5 // worst(LONG) == 3
    assert place.used("site-spend") == 3 * worst(LONG)


def test_hard_bounds_of_one_request(shipped, model):  # noqa: F811
    """20,000 characters are taken and not one more, in one message or in many; the answer has 500
    tokens whatever is asked for; the model is the server's."""
    place = shipped(CONFIG)
    alice = account(place, "alice")
    server = place.start()
    for text in ("x" * 20000, "字" * 20000):
        answer = server.chat(text, headers=[alice], fields={"max_tokens": 100000, "model": "gpt-5-ultra", "n": 1})
        assert answer.status == 200
        assert model.last["max_completion_tokens"] == 500 and "max_tokens" not in model.last
        assert model.last["model"] == "gpt-4o"
    long = server.chat("x" * 20001, headers=[alice])
    assert (long.status, long.code) == (400, "too_long")
    talk = [{"role": ("user", "assistant")[n % 2], "content": "x" * 4000} for n in range(5)]
    assert server.chat(talk, headers=[alice]).status == 200
    talk[0]["content"] += "x"
    assert server.chat(talk, headers=[alice]).code == "too_long"
    assert model.count == 3
    assert "total-timeout = 30s" in place.config.read_text(encoding="utf-8")


def test_an_upstream_that_hangs_is_cut_and_stays_charged(shipped, model):  # noqa: F811
    """The bound on the time, shortened from its 30 s."""
    place = shipped(CONFIG)
    place.write(place.config.read_text(encoding="utf-8").replace("timeout = 30s", "timeout = 1s"))
    server = place.start()
    model.set(hang=True)
    answer = server.chat("Hello")
    assert (answer.status, answer.code) == (504, "upstream_timeout")
    assert answer.header("x-should-retry") == "false"
    place.settled()
    assert place.used("site-spend") == worst("Hello")


def test_a_visitor_has_a_small_allowance_with_the_cookie_or_without(shipped, model):  # noqa: F811
    """25 cents: four of these, whatever becomes of the cookie; then an account still has its own."""
    model.set(usage="none")
    place = shipped(CONFIG)
    alice = account(place, "alice")
    server = place.start()
    fits = DOLLAR // 4 // worst(LONG)
    first = server.chat(LONG, source="127.0.5.1")
    assert first.status == 200
    more, refused = spend(server, LONG, [], source="127.0.5.1")
    assert (1 + more, refused.status, refused.code) == (fits, 429, "visitor_limit")
    mine, refused = spend(server, LONG, [cookie(first)], source="127.0.5.2")
    assert (mine, refused.code) == (fits, "visitor_limit"), "a visitor of its own since it has the cookie"
    assert server.chat(LONG, headers=[cookie(first), alice], source="127.0.5.1").status == 200
    assert server.chat(LONG, headers=[alice], source="127.0.5.1").status == 200


def test_all_who_have_not_signed_in_share_a_budget(shipped, model):  # noqa: F811
    """$5.00 of 24 addresses, and not one call more. Accounts go on."""
    model.set(usage="none")
    place = shipped(CONFIG)
    alice = account(place, "alice")
    server = place.start()
    admitted = 0
    for host in range(1, 40):
        more, refused = spend(server, LONG, [], source=f"127.0.6.{host}")
        admitted += more
        if refused.code != "visitor_limit":
            break
    assert (refused.status, refused.code) == (429, "anonymous_limit")
    assert int(refused.header("Retry-After")) % 60 == 0
    assert admitted == 5 * DOLLAR // worst(LONG) == model.count
    assert place.used("guests-spend") == admitted * worst(LONG) == place.used("site-spend")
    assert server.chat(LONG, headers=[alice]).status == 200
    assert place.used("guests-spend") == admitted * worst(LONG)


def test_the_whole_site_has_a_breaker_with_alerts(shipped, hook, model):  # noqa: F811
    """And so have those who have not signed in: at 50, 80 and 100 percent one alert each, over all
    processes, however many are refused after it (F14)."""
    model.set(usage="none")
    place = shipped(CONFIG)
    text = place.config.read_text(encoding="utf-8")
    for old, new in {"# alerts { url = 'https://hooks.example.org/pennygate'": f"alerts {{ url = '{hook.url}'",
                     "'$5.00'": "'$0.30'", "'$40.00'": "'$0.60'", "max = 20000": "max = 10"}.items():
        assert old in text
        text = text.replace(old, new)
    place.write(text)
    alice = account(place, "alice")
    server = place.start(procs=2)
    for n in range(10):
        answer = server.chat(LONG, headers=[alice] if n >= 5 else [], source=f"127.0.5.{1 + n % 3}")
        assert answer.status == 200
    for n in range(40):
        refused = server.chat(LONG, headers=[alice] if n % 2 else [], source="127.0.5.9")
        assert (refused.status, refused.code) == (429, "site_limit")
        assert int(refused.header("Retry-After")) % 60 == 0
    names = ("guests-spend", "site-spend", "site-day")

    def told():
        return {(post["limit"], post["percent"]) for post in hook.posts if post["event"] == "threshold"}

    # Calls are settled some at a time, and of several thresholds reached at once the highest is told.
    until(lambda: told() >= {(name, 100) for name in names}, 20, "the alerts")
    assert told() <= {(name, percent) for name in names for percent in (50, 80, 100)}
    assert len(hook.posts) == len(told()), "one for each threshold"
    assert "$" not in str(hook.posts) and "gpt" not in str(hook.posts)


def test_every_refusal_says_when_and_what_is_left(shipped, model):  # noqa: F811
    """Of all limits: Retry-After and the three X-RateLimit-* of the caller's own."""
    model.set(usage="none")
    place = shipped(CONFIG)
    alice = account(place, "alice")
    place.write(place.config.read_text(encoding="utf-8").replace("'$2.00'", "'$0.10'").replace(
        "'$5.00'", "'$0.30'").replace("'$40.00'", "'$0.45'"))
    server = place.start()
    seen = set()
    for source, headers in [("127.0.5.1", [alice]), ("127.0.5.2", []), ("127.0.5.3", []),
                            ("127.0.5.4", []), ("127.0.5.5", []), ("127.0.5.6", [alice])]:
        _, refused = spend(server, LONG, headers, source=source)
        seen.add(refused.code)
        assert refused.status == 429 and int(refused.header("Retry-After")) > 0
        assert refused.header("Retry-After") == str(int(refused.header("Retry-After")))
        for name in ("Limit", "Remaining", "Reset"):
            assert refused.header("X-RateLimit-" + name).isdigit(), name
    assert {"account_limit", "visitor_limit", "anonymous_limit"} <= seen


def test_nothing_tells_what_it_costs(shipped, model):  # noqa: F811
    """Neither the model's name, nor a price, nor what is left of the money, in header or body of any
    answer; and two requests of very different cost get the same."""
    place = shipped(CONFIG)
    alice = account(place, "alice")
    place.write(place.config.read_text(encoding="utf-8").replace("'$2.00'", "'$0.10'"))
    server = place.start()
    model.set(prompt_tokens=4, completion_tokens=5)
    cheap, dear = (server.chat(text, headers=[alice]) for text in ("Hello", LONG))
    assert [name for name, _ in cheap.headers] == [name for name, _ in dear.headers]
    model.set(usage="none")
    _, refused = spend(server, LONG, [alice])
    answers = [cheap, dear, refused, server.chat("x" * 20001), server.chat("x", stream=True),
               server.get("/v1/models"), server.get("/status")]
    for answer in answers:
        text = answer.body + b"\n".join(f"{name}: {value}".encode() for name, value in answer.headers)
        for word in (b"gpt-4o", b"$", b"cost", b"price", b"nano", b"spend", b"dollar", b"budget",
                     str(worst(LONG)).encode(), b"0.10", b"2.50"):
            assert word not in text.lower(), word
