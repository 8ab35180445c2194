"""Kinds of faults between the gateway and the model API: bytes that come compressed (F34), a stream
that lives and says nothing (F35), a fallback that speaks another dialect (F13), and proxies that
somebody else names (F48)."""
import gzip
import json
import re
import socket
import shutil
import subprocess
import threading

import pytest

from examples import hook  # noqa: F401: a fixture
from harness import PATIENCE, limit, until
from upstream import certificate, events, plain

PROVIDERS = ("openai", "anthropic")
BARE = {"overhead-per-call": 0, "overhead-per-message": 0, "max-output-tokens": 40}
BUDGET = {"budget": limit("everyone", "tokens", "day", 1000000)}
ASK = "0123456789"
WORST = 50
SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def event(name=None, **data):
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"


def chunk(finish=None, **delta):
    return event(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


def block(**delta):
    return event("content_block_delta", type="content_block_delta", index=0, delta=delta)


# Of each dialect: what begins a stream, what says nothing that a caller sees, a text, and the end.
BEGINS = {"openai": chunk(role="assistant", content=""),
          "anthropic": event("message_start", type="message_start",
                             message={"usage": {"input_tokens": 9, "output_tokens": 1}})}
SILENT = {"openai": {"a comment": b": still there\n\n", "thinking": chunk(reasoning_content="hm"),
                     "nothing": chunk(content="")},
          "anthropic": {"a comment": b": still there\n\n", "thinking": block(type="thinking_delta", thinking="hm"),
                        "a ping": event("ping", type="ping")}}
TEXT = {"openai": chunk(content="Salt"), "anthropic": block(type="text_delta", text="Salt")}
END = {"openai": chunk("stop") + event(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 8}) +
       b"data: [DONE]\n\n",
       "anthropic": event("message_delta", type="message_delta", delta={"stop_reason": "end_turn"},
                          usage={"output_tokens": 8}) + event("message_stop", type="message_stop")}
WHOLE = {"openai": {"choices": [{"index": 0, "message": {"content": "Salt"}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 9, "completion_tokens": 8}},
         "anthropic": {"type": "message", "content": [{"type": "text", "text": "Salt"}], "stop_reason": "end_turn",
                       "usage": {"input_tokens": 9, "output_tokens": 8}}}


def whole(provider, stream):
    return BEGINS[provider] + TEXT[provider] + END[provider] if stream else json.dumps(WHOLE[provider]).encode()


@pytest.fixture(params=PROVIDERS)
def provider(request):
    return request.param


def used(place):
    place.settled()
    return place.used("budget")


# ---- F34 ----

@pytest.mark.parametrize("stream", [False, True])
def test_f34_nothing_compressed_is_asked_for(site, upstream, provider, stream):
    """Whatever the caller would take."""
    heads = []

    def script(send, head):
        heads.append(head.lower().split(b"\r\n"))
        (events if stream else lambda body: plain(body=body))(whole(provider, stream))(send, head)

    server = site(demo={"url": upstream(script).url, "provider": provider}).start()
    answer = server.chat(ASK, stream=stream, headers=[("Accept-Encoding", "gzip, deflate, br")])
    assert answer.status == 200 and answer.text == "Salt"
    assert [line for line in heads[0] if b"-encoding:" in line] == [b"accept-encoding: identity"]


@pytest.mark.parametrize("told", [b"Content-Encoding: gzip\r\n", b""], ids=["told", "not told"])
@pytest.mark.parametrize("stream", [False, True])
def test_f34_what_comes_compressed_all_the_same_is_no_answer(site, upstream, provider, stream, told):
    """It is neither handed on nor guessed at, and it is paid for."""
    kind = b"text/event-stream" if stream else b"application/json"
    api = upstream(plain(body=gzip.compress(whole(provider, stream)), headers=told, kind=kind))
    place = site(demo={**BARE, "url": api.url, "provider": provider}, limits=BUDGET)
    server = place.start()
    answer = server.chat(ASK, stream=stream)
    assert (answer.status, answer.code, answer.header("x-should-retry")) == (502, "upstream_error", "false")
    assert b"\x1f\x8b" not in answer.body and answer.header("Content-Encoding") is None
    assert api.count == 1 and used(place) == WORST
    assert server.get("/status").status == 200, "it goes on serving"


# ---- F35 ----

@pytest.mark.parametrize("what, provider", [(what, provider) for provider in PROVIDERS for what in SILENT[provider]])
def test_f35_heartbeats_while_bytes_come_but_no_text(site, upstream, what, provider):
    """The caller sees none of what shows that the API lives, so it needs its own signs of life."""
    def script(send, _head):
        send(SSE_HEAD + BEGINS[provider])
        for _ in range(26):
            script.ended.wait(0.1)
            send(SILENT[provider][what])
        send(TEXT[provider] + END[provider])

    api = upstream(script)
    script.ended = api.ended
    place = site(demo={**BARE, "url": api.url, "provider": provider}, limits=BUDGET, server={"heartbeat": "1s"})
    answer = place.start().chat(ASK, stream=True)
    beats = [when for when, data in answer.pieces if data.startswith(b":\n\n")]
    text = next(when for when, data in answer.pieces if b"Salt" in data)
    assert len(beats) >= 2 and max(beats) < text, answer.pieces
    assert 0.9 < beats[0] < 1.6 * PATIENCE and beats[1] - beats[0] > 0.7
    assert re.fullmatch(rb"(:\n\n|data: [^\n]*\n\n)+", answer.body), "on the borders of events alone"
    assert answer.text == "Salt" and answer.events()[-1] == "[DONE]"
    assert used(place) == 17


def test_f35_heartbeats_in_every_mode(site, upstream, mode):
    def script(send, _head):
        send(SSE_HEAD)
        for _ in range(26):
            script.ended.wait(0.1)
            send(b": still there\n\n")
        send(whole("openai", True))

    api = upstream(script)
    script.ended = api.ended
    answer = site(demo={"url": api.url}, server={"heartbeat": "1s"}).start(mode).chat(ASK, stream=True)
    assert sum(data.startswith(b":\n\n") for _, data in answer.pieces) >= 2
    assert answer.text == "Salt" and answer.events()[-1] == "[DONE]"


# ---- F13 ----

REFUSALS = {"openai": b'{"error":{"message":"no","type":"x","code":"invalid_api_key"}}',
            "anthropic": b'{"type":"error","error":{"type":"authentication_error","message":"no"}}'}
# The name of the output cap, the content of a message, the header with the key, and the other's.
FIELDS = {"openai": ("max_completion_tokens", ASK, "authorization", "x-api-key"),
          "anthropic": ("max_tokens", [{"type": "text", "text": ASK}], "x-api-key", "authorization")}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("first, second", [PROVIDERS, PROVIDERS[::-1]])
def test_f13_a_fallback_that_speaks_the_other_dialect(site, model, upstream, first, second, stream):
    """Asked, authorized, read and charged in its own; the caller notices nothing but the alias."""
    model.set(prompt_tokens=9, completion_tokens=8, gap_ms=0)
    api = upstream(plain(b"401 Unauthorized", REFUSALS[first]))
    place = site(demo={**BARE, "url": api.url, "provider": first, "fallback": "other"}, limits=BUDGET, models={
        "other": {"url": model.url + "/v1", "provider": second, "model": "practice-other", "fallback": None}})
    server = place.start()
    answer = server.chat(ASK, stream=stream)
    assert answer.status == 200 and answer.text.startswith("The sea is salt")
    assert {one["model"] for one in (answer.chunks() if stream else [answer.json])} == {"other"}
    if stream:
        assert answer.events()[-1] == "[DONE]"
    output, content, shown, absent = FIELDS[second]
    assert (model.last["model"], model.last[output]) == ("practice-other", 40)
    assert model.last["messages"] == [{"role": "user", "content": content}]
    assert len({"max_tokens", "max_completion_tokens"} & set(model.last)) == 1
    headers = model.stats()["last"]["headers"]
    assert "sk-practice-0123456789" in headers[shown] and absent not in headers
    assert (api.count, model.count) == (1, 1) and used(place) == 17
    for _ in range(2):  # the first has a rest now, so that the second is asked straight away
        assert server.chat(ASK, stream=stream).text.startswith("The sea is salt")
    assert (api.count, model.count) == (1, 3) and used(place) == 3 * 17


# ---- F48 ----

class FakeProxy:
    """Takes connections, answers none, and counts them."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.seen, self.stopping = 0, False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while True:
            self.listener.accept()[0].close()
            if self.stopping:
                return
            self.seen += 1

    def close(self):
        self.stopping = True
        socket.create_connection(self.listener.getsockname()).close()
        self.thread.join()
        self.listener.close()


@pytest.fixture
def proxy():
    made = FakeProxy()
    yield made
    made.close()


PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy")
CALLERS_OWN = ("Proxy", "Http-Proxy", "All-Proxy", "HTTP_PROXY")


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_f48_no_proxy_of_the_environment_or_of_a_caller_is_used(  # noqa: F811: of hook
        site, upstream, hook, proxy, mode, secure):
    """Not for the model's calls, not for alerts, not for check --through: each goes where the
    configuration says, and the key with it."""
    place = site(limits={"site-day": limit("everyone", "calls", "day", 4)}, init=False)
    path, context = certificate(place.directory, "right")
    api = upstream(lambda send, head: (
        events(whole("openai", True)) if b"text/event-stream" in head else
        plain(body=whole("openai", False)))(send, head), tls=context if secure else None)
    place.demo.update({"url": api.url, "ca-file": path if secure else None})
    place.sections["alerts"] = {"url": hook.url}
    place.env = dict.fromkeys(PROXY_NAMES, proxy.url)
    if mode == "external":  # lighttpd has no two names that differ only in case
        place.env.update(dict.fromkeys(map(str.upper, PROXY_NAMES), proxy.url))
    place.write()
    server = place.init().start(mode)
    headers = [(name, proxy.url) for name in CALLERS_OWN]
    for stream in (False, True, False, True):
        answer = server.chat(ASK, stream=stream, headers=headers)
        assert answer.status == 200 and answer.text == "Salt"
    assert api.count == 4
    place.run("maintain")
    until(lambda: hook.posts, 10, "an alert")
    done = place.run("check", "--through", f"http://127.0.0.1:{server.port}/ai", "--silence", "0", check=False)
    assert "0 faults" in done.stdout, done.stdout
    assert proxy.seen == 0
    subprocess.run(["curl", "-sS", api.url.replace("https", "http")], env=place.environment(), check=False,
                   capture_output=True)
    until(lambda: proxy.seen == 1, 10, "a program that does believe them")


ROOTS = "/etc/ssl/certs"  # where a libcurl looks that was built with a directory of them
# In a mount namespace of its own the system's directory is this one.
INSTEAD = ["unshare", "-m", "sh", "-c", f'mount --bind "$0" {ROOTS} && exec "$@"']


def may_mount():
    return subprocess.run([*INSTEAD, ROOTS, "true"], capture_output=True, check=False).returncode == 0


def trusted_by_the_system(place):
    """A server's context with a certificate that is in the system's directory, and in right.crt, as it
    is not in other.crt; and what a program is to be started by to see that directory."""
    path, context = certificate(place.directory, "right")
    certificate(place.directory, "other", address="192.0.2.1")
    roots = place.directory / "roots"
    roots.mkdir()
    name = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", path], capture_output=True, text=True,
                          check=True).stdout.strip()
    shutil.copy(path, roots / f"{name}.0")
    shutil.copy(path, roots / "ca-certificates.crt")  # for one that was built with a file
    return context, [*INSTEAD, str(roots)]


@pytest.mark.skipif(not may_mount(), reason="no mount namespaces here")
@pytest.mark.parametrize("ca_file, status", [(None, 200), ("other", 502), ("right", 200)])
def test_beside_a_ca_file_the_systems_certificates_are_not_trusted(site, upstream, ca_file, status):
    place = site(init=False)
    context, prefix = trusted_by_the_system(place)
    api = upstream(plain(body=whole("openai", False)), tls=context)
    place.demo.update({"url": api.url, "ca-file": ca_file and place.directory / f"{ca_file}.crt"})
    place.write()
    server = place.init().start("external", prefix=prefix)
    assert server.chat(ASK).status == status
    assert api.count == (status == 200)


@pytest.mark.skipif(not may_mount(), reason="no mount namespaces here")
@pytest.mark.parametrize("ca_file, delivered", [(None, True), ("other", False), ("right", True)])
def test_nor_for_alerts(site, upstream, ca_file, delivered):
    place = site(limits={"site-day": limit("everyone", "calls", "day", 1)}, init=False)
    context, prefix = trusted_by_the_system(place)
    taker = upstream(lambda send, head: send(b"HTTP/1.1 204 None\r\nConnection: close\r\n\r\n"), tls=context)
    place.sections["alerts"] = {"url": taker.url, "ca-file": ca_file and place.directory / f"{ca_file}.crt"}
    place.write()
    server = place.init().start("external", prefix=prefix)
    assert server.chat(ASK).status == 200
    what = "event=alert_delivered" if delivered else "event=alert_not_delivered"
    until(lambda: what in server.log(), 10, what)
    assert (taker.count > 0) == delivered
