"""Whatever can be wrong with a model API, row by row: what the caller gets, plain and as a stream,
what stays charged, what the owner is told, what the breaker counts, and how many requests arrive."""
import email.utils
import gzip
import json
import socket
import time

import pytest

from harness import Timer, free_port, limit, until
from upstream import certificate, events, plain

BARE = {"overhead-per-call": 0, "overhead-per-message": 0, "max-output-tokens": 40}
ASK, WORST = "0123456789", 10 + 40

TEXT = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Salt"}}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
WHOLE = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Salt"},"finish_reason":"stop"}]}'


def error(code, kind="some_type"):
    return json.dumps({"error": {"message": "no", "type": kind, "param": None, "code": code}}).encode()


def status(line, headers=b"", code="some_code"):
    return plain(line, error(code), headers)


def raw(*pieces):
    """The bytes of an answer as they are; a number is so many seconds of silence, or the test's end."""
    def script(send, _head):
        for piece in pieces:
            if isinstance(piece, bytes):
                send(piece)
            else:
                script.ended.wait(piece)
    return script


def header(kind=b"application/json", more=b"", line=b"200 OK"):
    return b"HTTP/1.1 " + line + b"\r\nContent-Type: " + kind + b"\r\n" + more + b"Connection: close\r\n\r\n"


SSE = b"text/event-stream"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LARGE = b'{"choices":[{"index":0,"message":{"content":"' + b"x" * 1100000 + b'"},"finish_reason":"stop"}]}'


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


FREE, PAID = "given back", "charged in full"
# What the breaker, which opens after two failures, makes of it.
OPENS, COUNTS, NOTHING = "opens", "counts one", "counts nothing"

# the fault: script, code, what stays charged, the breaker, in the owner's line, requests
ANSWERS = {
    "400": (status(b"400 Bad Request"), "upstream_error", PAID, NOTHING, " 400 some_code", 1),
    "F46 401": (status(b"401 Unauthorized", code="invalid_api_key"), "upstream_refused", FREE, OPENS,
                " 401 invalid_api_key", 1),
    "F46 402": (status(b"402 Payment Required"), "upstream_refused", FREE, OPENS, "no credit left", 1),
    "403": (status(b"403 Forbidden"), "upstream_refused", PAID, NOTHING, " 403 some_code", 1),
    "404": (status(b"404 Not Found"), "upstream_error", FREE, COUNTS, "look at model and url", 1),
    "405": (status(b"405 Method Not Allowed"), "upstream_error", FREE, COUNTS, " 405 ", 1),
    "408": (status(b"408 Request Timeout"), "upstream_error", PAID, NOTHING, " 408 ", 1),
    "409": (status(b"409 Conflict"), "upstream_error", PAID, NOTHING, " 409 ", 1),
    "413": (status(b"413 Content Too Large"), "upstream_error", PAID, NOTHING, "max-input-chars", 1),
    "422": (status(b"422 Unprocessable"), "upstream_error", PAID, NOTHING, " 422 ", 1),
    "F46 429": (status(b"429 Slow Down"), "upstream_refused", FREE, OPENS, "credit or rate is used up", 1),
    "F46 429 in two minutes": (status(b"429 Slow Down", b"Retry-After: 120\r\n"), "upstream_refused", FREE, OPENS,
                               " 429 ", 1),
    "F46 429 without quota": (status(b"429 Slow Down", b"Retry-After: 1\r\n", "insufficient_quota"),
                              "upstream_refused", FREE, OPENS, " 429 insufficient_quota", 1),
    "F46 429 with an odd wait": (status(b"429 Slow Down", b"Retry-After: soon\r\n"), "upstream_refused", FREE, OPENS,
                                 " 429 ", 1),
    "F13 429 in a second, and again": (status(b"429 Slow Down", b"Retry-After: 1\r\n"), "upstream_refused", FREE,
                                       OPENS, " 429 ", 2),
    "F13 500": (status(b"500 Oops"), "upstream_error", PAID, COUNTS, "the provider has trouble", 1),
    "F13 502": (status(b"502 Bad Gateway"), "upstream_error", PAID, COUNTS, " 502 ", 1),
    "F13 503 in a second": (status(b"503 No", b"Retry-After: 1\r\n"), "upstream_error", PAID, COUNTS, " 503 ", 1),
    "F13 504": (status(b"504 Gateway Timeout"), "upstream_error", PAID, COUNTS, " 504 ", 1),
    "F13 529 overloaded": (status(b"529 Overloaded", b"Retry-After: 1\r\n", "overloaded_error"), "upstream_error",
                           PAID, COUNTS, " 529 overloaded_error", 1),
    "a status that nobody knows": (status(b"799 Huh"), "upstream_error", PAID, COUNTS, " 799 ", 1),
    "a success that is none": (plain(b"202 Accepted", WHOLE), "upstream_error", PAID, COUNTS, " 202", 1),
    "a wrong content type": (plain(body=b"<html>Log in to the hotel's network</html>", kind=b"text/html"),
                             "upstream_error", PAID, COUNTS, "no answer of this API", 1),
    "no content type": (raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + WHOLE), "upstream_error", PAID, COUNTS,
                        "no answer of this API", 1),
    "nothing at all": (raw(), "upstream_error", PAID, COUNTS, "call failed", 1),
    "F34 compressed, which nobody asked for": (
        plain(body=gzip.compress(WHOLE), headers=b"Content-Encoding: gzip\r\n"), "upstream_error", PAID, COUNTS,
        "no answer of this API", 1),
    "no HTTP": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "upstream_error", PAID, COUNTS, "call failed", 1),
    "F35 no header in time": (raw(60), "upstream_timeout", PAID, COUNTS, "no byte of the answer in time", 1),
    "a header that ends in the middle": (raw(b"HTTP/1.1 200 OK\r\nContent-Ty"), "upstream_error", PAID, COUNTS,
                                         "call failed", 1),
    "a header that is too large": (raw(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70000 + b"\r\n\r\n"),
                                   "upstream_error", PAID, COUNTS, "call failed", 1),
}

# as above; these are about the body of a plain answer
BODIES = {
    "no JSON": (plain(body=b"sorry"), "upstream_error"),
    "JSON of another shape": (plain(body=b'{"choices":[]}'), "upstream_error"),
    "an empty body": (plain(body=b""), "upstream_error"),
    "truncated: shorter than its length": (plain(body=WHOLE, length=len(WHOLE) + 1), "upstream_error"),
    "lying: longer than its length": (plain(body=WHOLE, length=len(WHOLE) - 9), "upstream_error"),
    "truncated in a chunk": (raw(header(more=CHUNKED) + chunk(WHOLE)[:-20]), "upstream_error"),
    "truncated between chunks": (raw(header(more=CHUNKED) + chunk(WHOLE)), "upstream_error"),
    "cut where its end is that of the connection": (raw(header() + WHOLE[:-9]), "upstream_error"),
    "too large": (plain(body=LARGE), "upstream_error"),
    "too large, and of no announced length": (raw(header() + LARGE), "upstream_error"),
    "F24 an error in it": (plain(body=error("server_error")), "upstream_error"),
    "it stops in the middle": (raw(header() + WHOLE[:20], 60), "upstream_timeout"),
    "F35 it does not begin": (raw(header(), 60), "upstream_timeout"),
    "it drips for ever": (raw(header() + WHOLE[:20], *[part for _ in range(40) for part in (0.3, b" ")]),
                          "upstream_timeout"),
}

# a stream that has not begun for the caller, and one that has
STREAMS = {
    "F23 nothing in it": (b"", b"", "upstream_error"),
    "F24 an error event": (b"data: " + error("server_error") + b"\n\n", b"", "upstream_error"),
    "no JSON": (b"data: sorry\n\n", b"", "upstream_error"),
    "F32 an event that is too large": (b"data: " + b"x" * 70000 + b"\n\n", b"", "upstream_error"),
    "F23 no end mark and no finish": (TEXT, TEXT, "upstream_error"),
    "F24 an error event after the text": (TEXT, b"data: " + error("server_error") + b"\n\n", "upstream_error"),
    "no JSON after the text": (TEXT, b"data: sorry\n\n", "upstream_error"),
    "F32 an event that is too large after the text": (TEXT, b"data: " + b"x" * 70000 + b"\n\n", "upstream_error"),
    "it stops after the text": (TEXT, 60, "upstream_timeout"),
}

TIMES = {"connect-timeout": "1s", "first-byte-timeout": "2s", "idle-timeout": "1s", "total-timeout": "4s"}


@pytest.fixture
def gateway(site):
    """A function that puts a gateway in front of an upstream."""
    def start(url, mode="spawned", **demo):
        place = site(limits={"budget": limit("everyone", "tokens", "day", 1000000)},
                     demo={**BARE, **TIMES, "url": url, "breaker-after": 2, "breaker-pause": "1h", **demo})
        return place.start(mode)
    return start


def owners_lines(server):
    return [line for line in server.log().splitlines() if "level=error" in line and "model demo" in line]


def check(server, code, charged, breaker, told):
    """What came of one request."""
    place = server.site
    day = place.settled()
    assert (day["admitted"], day["settled"]) == (1, 0)
    assert day["unknown" if charged == PAID else "given_back"] == 1
    assert place.used("budget") == (WORST if charged == PAID else 0)
    until(lambda: owners_lines(server), 5, "a line for the owner")
    assert told in owners_lines(server)[0], owners_lines(server)
    until(lambda: f" code={code} " in server.log(), 5, "the request's line")
    known = place.run("check", check=False).stdout
    assert ("is left alone for" in known) == (breaker == OPENS), known
    assert ("failed 1 time in a row" in known) == (breaker == COUNTS), known


def refused(answer, code, charged):
    assert answer.code == code and answer.status == {"upstream_refused": 503, "upstream_timeout": 504}.get(code, 502)
    assert answer.header("Content-Type") == "application/json"
    wait = int(answer.header("Retry-After") or 0)
    assert (wait > 0) == (answer.status == 503)
    # F51: an SDK must not buy it twice, and need not wait for hours
    assert (answer.header("x-should-retry") == "false") == (charged == PAID or wait > 60)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", ANSWERS)
def test_an_answer_that_is_none(gateway, upstream, fault, stream):
    script, code, charged, breaker, told, requests = ANSWERS[fault]
    api = upstream(script)
    script.ended = api.ended
    server = gateway(api.url)
    refused(server.chat(ASK, stream=stream), code, charged)
    assert api.count == requests
    check(server, code, charged, breaker, told)


@pytest.mark.parametrize("fault", BODIES)
def test_a_body_that_is_none(gateway, upstream, fault):
    script, code = BODIES[fault]
    api = upstream(script)
    script.ended = api.ended
    server = gateway(api.url)
    timer = Timer()
    refused(server.chat(ASK), code, PAID)
    assert timer.within(6)
    assert api.count == 1
    check(server, code, PAID, COUNTS, "model demo: the ")


@pytest.mark.parametrize("fault", STREAMS)
def test_a_stream_that_goes_wrong(gateway, upstream, fault):
    before, after, code = STREAMS[fault]
    script = raw(header(SSE) + before, after)
    api = upstream(script)
    script.ended = api.ended
    server = gateway(api.url)
    answer = server.chat(ASK, stream=True)
    if before == TEXT:
        assert answer.status == 200 and answer.text.startswith("Salt")
        assert json.loads(answer.events()[-1])["error"]["code"] == code
        assert sum("error" in event for event in answer.events()) == 1
    else:
        refused(answer, code, PAID)
    assert api.count == 1
    check(server, code, PAID, COUNTS, "model demo: the ")


def refusing(_upstream, _directory):
    return f"http://127.0.0.1:{free_port()}/v1", {}


def nameless(_upstream, _directory):
    return "http://" + "a" * 64 + ".invalid/v1", {}


def unknown_certificate(upstream, directory):
    return upstream(status(b"500 Oops"), tls=certificate(directory, "own")[1]).url, {}


def expired(upstream, directory):
    path, context = certificate(directory, "old", days=-1)
    return upstream(status(b"500 Oops"), tls=context).url, {"ca-file": path}


def another_hosts(upstream, directory):
    path, context = certificate(directory, "other", address="192.0.2.1")
    return upstream(status(b"500 Oops"), tls=context).url, {"ca-file": path}


def no_tls(upstream, _directory):
    return upstream(None).url.replace("http:", "https:"), {}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("make, told", [
    (refusing, "connect to server"), (nameless, "resolve host"), (unknown_certificate, "SSL"), (expired, "SSL"),
    (another_hosts, "SSL"), (no_tls, "SSL")])
def test_no_connection(site, upstream, make, told, stream):
    place = site(init=False, limits={"budget": limit("everyone", "tokens", "day", 1000000)})
    url, more = make(upstream, place.directory)
    place.demo.update({**BARE, **TIMES, "url": url, "breaker-after": 2, "breaker-pause": "1h", **more})
    place.write()
    server = place.init().start()
    refused(server.chat(ASK, stream=stream), "upstream_unreachable", FREE)
    check(server, "upstream_unreachable", FREE, COUNTS, told)


def test_a_certificate_that_is_right_is_believed(site, upstream):
    """The tests above can fail."""
    place = site(init=False)
    path, context = certificate(place.directory, "right")
    place.demo.update({"url": upstream(plain(body=WHOLE), tls=context).url, "ca-file": path})
    place.write()
    assert place.init().start().chat().text == "Salt"


def test_a_connection_that_hangs(gateway):
    """A full backlog: the kernel answers nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        server = gateway(f"http://127.0.0.1:{address[1]}/v1")
        refused(server.chat(ASK), "upstream_timeout", FREE)
        check(server, "upstream_timeout", FREE, COUNTS, "no connection in time")
        for one in waiting:
            one.close()


@pytest.mark.parametrize("line", [b"301 Moved", b"302 Found", b"303 See Other", b"307 Temporary", b"308 Permanent"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_redirect_is_not_followed(gateway, upstream, line, stream):
    """With the key it would be the key that is lost."""
    other = upstream(plain(body=WHOLE))
    api = upstream(status(line, b"Location: " + other.url.encode() + b"/chat/completions\r\n"))
    server = gateway(api.url)
    refused(server.chat(ASK, stream=stream), "upstream_error", PAID)
    assert (api.count, other.count, other.connections) == (1, 0, 0)
    check(server, "upstream_error", PAID, COUNTS, f" {line.split()[0].decode()} ")


def http_date(seconds):
    return email.utils.formatdate(time.time() + seconds, usegmt=True).encode()


@pytest.mark.parametrize("value, least, most", [
    (lambda: b"120", 120, 120), (lambda: http_date(120), 110, 121), (lambda: b"86400", 3600, 3600),
    (lambda: http_date(86400), 3600, 3600)])
@pytest.mark.parametrize("stream", [False, True])
def test_f46_a_retry_after_is_passed_on_in_either_form_and_capped(gateway, upstream, value, least, most, stream):
    api = upstream(status(b"429 Slow Down", b"Retry-After: " + value() + b"\r\n"))
    answer = gateway(api.url, **{"breaker-pause": "10s"}).chat(ASK, stream=stream)
    assert answer.code == "upstream_refused"
    assert least <= int(answer.header("Retry-After")) <= most
    assert answer.header("x-should-retry") == "false"


def sdk(server, **options):
    """As OpenAI's clients ask: up to two more times, unless they are told not to, or to wait long."""
    for _ in range(3):
        answer = server.chat(ASK, **options)
        again = answer.header("x-should-retry")
        wait = int(answer.header("Retry-After") or 0)
        if again == "false" or answer.status < 408 or wait > 60:
            break
    return answer


@pytest.mark.parametrize("fault", [one for one, row in ANSWERS.items() if row[2] == PAID])
def test_f51_one_request_arrives_from_a_client_that_would_ask_again(gateway, upstream, fault):
    script, code, *_ = ANSWERS[fault]
    api = upstream(script)
    script.ended = api.ended
    assert sdk(gateway(api.url)).code == code
    assert api.count == 1


# ---- answers that are slow, odd or empty, and right ----

@pytest.mark.parametrize("script", [
    raw(header(), *[part for byte in WHOLE for part in (bytes([byte]), 0.001)]),
    raw(header(more=CHUNKED), *[part for byte in WHOLE for part in (chunk(bytes([byte])), 0.001)], b"0\r\n\r\n"),
    raw(header() + WHOLE[:30], 0.6, WHOLE[30:60], 0.6, WHOLE[60:]),
    raw(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + header() + b"\n\n " + WHOLE + b"\n"),
    raw(header(more=b"Content-Length: %d\r\n" % len(WHOLE)) + WHOLE + b"and more, which is not its own"),
])
def test_a_slow_or_odd_body_is_one_answer(gateway, upstream, script):
    api = upstream(script)
    script.ended = api.ended
    answer = gateway(api.url).chat(ASK)
    assert answer.status == 200 and answer.text == "Salt"


@pytest.mark.parametrize("content", [b'""', b"null", b"[]", b'[{"type":"thinking","thinking":"Hm."}]'])
@pytest.mark.parametrize("finish", [b'"length"', b'"stop"', b'"content_filter"'])
def test_f27_an_answer_without_visible_text_is_said_plainly(gateway, upstream, content, finish):
    usage = b'"usage":{"prompt_tokens":9,"completion_tokens":40,"total_tokens":49}'
    api = upstream(plain(body=b'{"choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"Hm.",'
                         b'"content":' + content + b'},"finish_reason":' + finish + b"}]," + usage + b"}"))
    server = gateway(api.url)
    answer = server.chat(ASK)
    assert answer.status == 200
    choice = answer.json["choices"][0]
    assert choice["message"]["content"] == "" and choice["finish_reason"] == json.loads(finish)
    assert b"Hm." not in answer.body
    assert api.count == 1
    assert server.site.settled()["settled"] == 1 and server.site.used("budget") == 49


@pytest.mark.parametrize("finish", ["length", "stop", "content_filter"])
@pytest.mark.parametrize("thoughts", [0, 3])
def test_f27_a_stream_without_visible_text_is_said_plainly(gateway, upstream, finish, thoughts):
    thought = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}\n\n'
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"' + finish.encode() + b'"}]}\n\n'
    api = upstream(events(thought * thoughts, end, DONE))
    answer = gateway(api.url).chat(ASK, stream=True)
    assert answer.status == 200 and answer.text == "" and answer.events()[-1] == "[DONE]"
    assert [one["choices"][0]["finish_reason"] for one in answer.chunks()][-1] == finish
    assert b"Hm." not in answer.body and b"error" not in answer.body
    assert api.count == 1


def test_f23_an_end_without_its_mark_after_a_finish_is_one(gateway, upstream):
    answer = gateway(upstream(events(TEXT, FINISH)).url).chat(ASK, stream=True)
    assert answer.text == "Salt" and answer.events()[-1] == "[DONE]"
