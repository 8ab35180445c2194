"""Both dialects through lighttpd: whatever the provider speaks, the caller sees OpenAI's shape, is
told the same of every trouble, and the same is charged (F16 to F24, F27 to F29, F47)."""
import re

import pytest

from harness import limit
from upstream import events, plain

PROVIDERS = ("openai", "anthropic")
BARE = {"overhead-per-call": 0, "overhead-per-message": 0, "max-output-tokens": 40}
BUDGET = {"budget": limit("everyone", "tokens", "day", 1000000)}
ASK = "0123456789"  # 10 bytes: the worst case is 10 + 40 tokens
WORST = 50
REAL = {"prompt_tokens": 9, "completion_tokens": 8}
KEY = "sk-practice-0123456789"


@pytest.fixture(params=PROVIDERS)
def provider(request):
    return request.param


@pytest.fixture
def place(site, provider):
    return site(demo={**BARE, "provider": provider}, limits=BUDGET)


def used(place):
    place.settled()
    return place.used("budget")


@pytest.mark.parametrize("stream", [False, True])
def test_the_caller_sees_one_shape(gate, model, mode, provider, stream):
    model.set(text="Salt – 塩 \"and\" \\ more.", **REAL)
    server = gate(mode, demo={**BARE, "provider": provider})
    answer = server.chat(ASK, stream=stream, fields={"stream_options": {"include_usage": True}} if stream else None)
    assert answer.status == 200 and answer.text == "Salt – 塩 \"and\" \\ more."
    usage = {"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17}
    if stream:
        assert answer.events()[-1] == "[DONE]"
        first, *middle, finish, last = answer.chunks()
        assert first["choices"][0]["delta"]["role"] == "assistant"
        assert {chunk["object"] for chunk in answer.chunks()} == {"chat.completion.chunk"}
        assert all(chunk["choices"][0]["finish_reason"] is None for chunk in (first, *middle))
        assert finish["choices"][0]["finish_reason"] == "stop"
        assert last["choices"] == [] and last["usage"] == usage
    else:
        assert answer.json["object"] == "chat.completion" and answer.json["usage"] == usage
        assert answer.json["choices"][0]["finish_reason"] == "stop"
    for hidden in (b"practice", b"msg_", b"anthropic", b"claude", b"stop_reason", b"end_turn"):
        assert hidden not in answer.body


@pytest.mark.parametrize("stream", [False, True])
def test_what_anthropics_api_is_sent(site, model, stream):
    place = site(demo={**BARE, "provider": "anthropic", "system-prompt-file": "/proc/self/mounts"}, init=False)
    prompt = place.directory / "prompt"
    prompt.write_text("Be brief. ☺", encoding="utf-8")
    place.demo["system-prompt-file"] = prompt
    place.write()
    place.init()
    said = [("assistant", "Hello!"), ("user", "one"), ("user", "two"), ("assistant", "three"), ("user", "four")]
    answer = place.start().chat([{"role": role, "content": text} for role, text in said], stream=stream,
                                fields={"max_tokens": 7, "temperature": 2, "user": "me", "n": 1})
    assert answer.status == 200

    def turn(role, *texts):
        return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}

    assert model.last == {
        "model": "practice-large", "max_tokens": 40, "system": "Be brief. ☺",
        "messages": [turn("user", "one", "two"), turn("assistant", "three"), turn("user", "four")],
        **({"stream": True} if stream else {})}
    headers = model.stats()["last"]["headers"]
    assert headers["x-api-key"] == KEY and headers["anthropic-version"] == "2023-06-01"
    assert headers["content-type"] == "application/json"
    assert "authorization" not in headers and not [name for name in headers if "forwarded" in name]


@pytest.mark.parametrize("provider, setting, field", [
    ("openai", {"stream-usage": "no"}, None),
    ("openai", {"reasoning": "none"}, ("reasoning_effort", "none")),
    ("openai", {"reasoning": "low"}, ("reasoning_effort", "low")),
    ("anthropic", {"reasoning": "none"}, ("thinking", {"type": "disabled"})),
    ("anthropic", {"reasoning": "low"}, ("output_config", {"effort": "low"})),
    ("anthropic", {"output-field": "max_completion_tokens"}, ("max_tokens", 40)),  # F28: but one name
])
def test_quirks_are_settings_of_a_model(site, model, provider, setting, field):
    assert site(demo={**BARE, "provider": provider, **setting}).start().chat(stream=True).status == 200
    if field:
        assert model.last[field[0]] == field[1]
    assert ("stream_options" in model.last) == (provider == "openai" and "stream-usage" not in setting)
    assert len([name for name in model.last if name.startswith("max_")]) == 1


def test_f16_usage_that_was_not_asked_for_counts_all_the_same(site, model):
    model.set(usage="beside_choices", **REAL)
    place = site(demo={**BARE, "stream-usage": "no"}, limits=BUDGET)
    assert place.start().chat(ASK, stream=True).status == 200
    assert used(place) == 17


@pytest.mark.parametrize("settings, stream, tokens", [
    ({}, True, 17), ({}, False, 17),
    ({"usage": "none"}, True, WORST), ({"usage": "none"}, False, WORST),         # F16
    ({"usage": "choices_missing"}, True, 17),                                    # F17, F21: only at the end
    ({"usage": "running_totals"}, True, 17),                                     # F19
    ({"usage": "null_after"}, True, 17), ({"usage": "zeros_after"}, True, 17),   # F20
    ({"usage": "cached"}, True, 17), ({"usage": "cached"}, False, 17),           # F21, F22: a sum, and no more
    ({"usage": "written"}, True, 17), ({"usage": "written"}, False, 17),
    ({"completion_tokens": 15}, True, 24),                                       # F21: 1 and 15 are 15
    ({"usage": "string"}, True, WORST), ({"usage": "string"}, False, WORST),     # F29
    ({"usage": "negative"}, True, WORST), ({"usage": "negative"}, False, WORST),
    ({"usage": "fraction"}, True, WORST), ({"usage": "fraction"}, False, WORST),
    ({"usage": "huge"}, True, WORST), ({"usage": "huge"}, False, WORST),
    ({"prompt_tokens": 30, "completion_tokens": 40}, True, 70),
    ({"prompt_tokens": 9, "completion_tokens": 681}, True, WORST),
    ({"cut": "middle"}, True, WORST), ({"cut": "silent_middle"}, True, WORST),   # F23
    ({"error_in_200": "middle"}, True, WORST),                                   # F24
    ({"done": False}, True, 17),                                                 # F23: fine
], ids=str)
def test_what_is_charged(place, model, settings, stream, tokens):
    model.set(**{**REAL, **settings})
    assert place.start().chat(ASK, stream=stream).status == 200
    assert used(place) == tokens


@pytest.mark.parametrize("kind, nano", [("cached", 250), ("written", 1250)])
@pytest.mark.parametrize("stream", [False, True])
def test_f21_f22_a_cache_has_prices_of_its_own(site, model, provider, kind, nano, stream):
    place = site(demo={**BARE, "provider": provider, "price-input": "$1.00", "price-cached-input": "$0.25",
                       "price-cache-write": "$1.25", "price-output": "$2.00"},
                 limits={"spend": limit("everyone", "cost", "day", "$10.00")})
    model.set(usage=kind, prompt_tokens=100, completion_tokens=10)
    assert place.start().chat("x" * 100, stream=stream).status == 200
    place.settled()
    assert place.used("spend") == 20 * 1000 + 80 * nano + 10 * 2000


@pytest.mark.parametrize("finish, told", [
    ("stop", "stop"), ("length", "length"), ("content_filter", "content_filter"), ("pause_turn", "stop")])
@pytest.mark.parametrize("stream", [False, True])
def test_why_an_answer_ended(place, model, finish, told, stream):
    model.set(finish=finish)
    answer = place.start().chat(stream=stream)
    choice = (answer.chunks()[-1] if stream else answer.json)["choices"][0]
    assert answer.status == 200 and choice["finish_reason"] == told


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["external", "cgi"])
def test_f27_an_answer_used_up_by_thinking_is_said_plainly(place, model, stream, kind):
    model.set(reasoning=True, finish="length", prompt_tokens=9, completion_tokens=40)
    server = place.start(kind)
    answer = server.chat(ASK, stream=stream)
    choice = (answer.chunks()[-1] if stream else answer.json)["choices"][0]
    assert answer.status == 200 and answer.text == "" and choice["finish_reason"] == "length"
    assert b"salt" not in answer.body  # what it thought
    assert used(place) == 49 and model.count == 1
    assert server.log().count("model demo: an answer was used up before its first word") == 1


@pytest.mark.parametrize("stream", [False, True])
def test_f27_an_empty_answer_is_one(place, model, stream):
    model.set(text="", prompt_tokens=9, completion_tokens=2)
    server = place.start()
    answer = server.chat(ASK, stream=stream)
    choice = (answer.chunks()[-1] if stream else answer.json)["choices"][0]
    assert answer.status == 200 and answer.text == "" and choice["finish_reason"] == "stop"
    assert used(place) == 11 and model.count == 1 and "used up" not in server.log()


@pytest.mark.parametrize("settings", [
    {"cut": "middle"}, {"cut": "silent_middle"}, {"cut": "content_length"},  # F23
    {"error_in_200": "middle"},                                              # F24
    {"event_bytes": 70000},                                                  # F32
], ids=str)
def test_f23_f24_a_stream_that_goes_wrong_ends_with_an_error(place, model, settings):
    model.set(chunks=6, **settings)
    answer = place.start().chat(ASK, stream=True)
    if answer.status == 200:
        assert answer.chunks()[-1]["error"]["code"] == "upstream_error" and "[DONE]" not in answer.events()
    else:
        assert answer.code == "upstream_error"
    assert b"practice error" not in answer.body and b"overloaded" not in answer.body
    assert used(place) == WORST


@pytest.mark.parametrize("settings, stream", [
    ({"error_in_200": "before"}, True), ({"error_in_200": "body"}, False), ({"error_in_200": "body"}, True),
    ({"garbage": True}, False), ({"garbage": True}, True), ({"cut": "middle"}, False),
    ({"content_type": "text/html"}, False), ({"content_type": "text/html"}, True),
])
def test_f24_trouble_before_the_first_text_has_a_status(place, model, settings, stream):
    model.set(**settings)
    answer = place.start().chat(ASK, stream=stream)
    assert (answer.status, answer.code) == (502, "upstream_error")
    assert answer.header("x-should-retry") == "false"
    assert b"practice error" not in answer.body and b"overloaded" not in answer.body
    assert used(place) == WORST


def anthropic_error(kind):
    return f'{{"type":"error","error":{{"type":"{kind}","message":"x-api-key {KEY} is wrong"}},"request_id":"r"}}'


@pytest.mark.parametrize("status, kind, code, charged", [
    (400, "invalid_request_error", "upstream_error", WORST),
    (401, "authentication_error", "upstream_refused", 0),
    (402, "billing_error", "upstream_refused", 0),
    (403, "permission_error", "upstream_refused", WORST),
    (404, "not_found_error", "upstream_error", 0),
    (413, "request_too_large", "upstream_error", WORST),
    (429, "rate_limit_error", "upstream_refused", 0),
    (500, "api_error", "upstream_error", WORST),
    (529, "overloaded_error", "upstream_error", WORST),
])
def test_errors_by_status(site, model, status, kind, code, charged):
    model.set(status=status, error_body=anthropic_error(kind))
    place = site(demo={**BARE, "provider": "anthropic"}, limits=BUDGET)
    server = place.start("external")
    answer = server.chat(ASK)
    assert answer.code == code
    assert used(place) == charged
    assert f"the API answered {status} {kind}: " in server.log()
    assert KEY not in server.log() and b"is wrong" not in answer.body and kind.encode() not in answer.body


@pytest.mark.parametrize("kind, code", [
    ("overloaded_error", "upstream_error"), ("rate_limit_error", "upstream_refused"),
    ("authentication_error", "upstream_refused")])
def test_f24_an_error_inside_a_200(site, upstream, kind, code):
    api = upstream(events(b"event: error\ndata: " + anthropic_error(kind).encode() + b"\n\n"))
    answer = site(demo={"url": api.url, "provider": "anthropic"}).start().chat(stream=True)
    assert answer.code == code and answer.status in (502, 503)


BEGIN = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}\n\n'
TEXT = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Salt."}}\n\n'
ENDED = b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":8}}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


@pytest.mark.parametrize("data, whole, tokens", [
    (BEGIN + TEXT + ENDED + STOP, True, 17),
    (BEGIN + TEXT + ENDED, True, 17),             # F23: an end after stop_reason is fine
    (BEGIN + TEXT + STOP, True, WORST),           # only the provisional report
    (TEXT + ENDED + STOP, True, WORST),           # nobody has said what the input was
    (BEGIN + TEXT, False, WORST),                 # F23: neither stop_reason nor message_stop
    (BEGIN + TEXT + ENDED + b"data: nonsense\n\n", False, WORST),
    (BEGIN + TEXT + ENDED + STOP + b"data: nonsense\n\n", True, 17),  # after the end
    (BEGIN + TEXT + b'data: {"type":"later"}\n\n' + ENDED + STOP, True, 17),
])
def test_f23_message_stop(site, upstream, data, whole, tokens):
    place = site(demo={**BARE, "url": upstream(events(data)).url, "provider": "anthropic"}, limits=BUDGET)
    answer = place.start("cgi").chat(ASK, stream=True)
    assert answer.status == 200 and answer.text.startswith("Salt.")
    assert (answer.events()[-1] == "[DONE]") == whole
    assert whole or answer.chunks()[-1]["error"]["code"] == "upstream_error"
    assert used(place) == tokens
    if whole:
        assert [chunk["choices"][0]["finish_reason"] for chunk in answer.chunks()][-1]


@pytest.mark.parametrize("provider, data", [
    ("openai", b"data: [DONE]\n\n"),
    ("openai", b'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\ndata: [DONE]\n\n'),
    ("anthropic", STOP),
])
def test_f27_an_end_without_a_word_is_an_empty_answer(site, upstream, provider, data):
    place = site(demo={**BARE, "url": upstream(events(data)).url, "provider": provider}, limits=BUDGET)
    answer = place.start().chat(ASK, stream=True)
    assert answer.status == 200 and answer.text == "" and answer.events()[-1] == "[DONE]"
    assert [chunk["choices"][0]["finish_reason"] for chunk in answer.chunks()] == ["stop"]
    assert used(place) == WORST


@pytest.mark.parametrize("where, script", [
    ("an error's body", plain(b"401 Unauthorized", b'{"type":"error","error":{"type":"KEY","message":"KEY"}}')),
    ("an error in a 200", plain(body=b'{"type":"error","error":{"type":"KEY","message":"KEY"}}')),
    ("an error event", events(BEGIN + TEXT, b'event: error\ndata: {"type":"error","error":{"type":"KEY"}}\n\n')),
    ("the name of an event", events(b"event: KEY\n" + TEXT + ENDED + STOP)),
    ("other fields", events(b'data: {"type":"message_start","message":{"id":"KEY","model":"KEY","usage":null}}\n\n',
                            b'data: {"type":"KEY","text":"KEY"}\n\n', TEXT, ENDED.replace(b"end_turn", b"KEY"), STOP)),
    ("what it thought", events(TEXT.replace(b"text_delta", b"thinking_delta").replace(b"Salt.", b"KEY"), TEXT, ENDED)),
])
@pytest.mark.parametrize("stream", [False, True])
def test_f47_the_key_comes_back_nowhere(site, upstream, where, script, stream):
    server = site(demo={"url": upstream(script).url, "provider": "anthropic"}).start("external")
    answer = server.chat(stream=stream)
    server.stop()  # so that every line is in the log
    seen = answer.body.decode() + repr(answer.headers) + answer.reason + server.log()
    assert not re.search("sk-practice|0123456789", seen), where


@pytest.mark.parametrize("settings", [
    {"comments": True}, {"line_ending": "crlf"}, {"line_ending": "cr"}, {"bom": True}, {"no_space": True},
    {"split": 1}, {"split": 7, "line_ending": "crlf", "comments": True}, {"multi_line_data": True},
], ids=str)
def test_f30_f31_f32_every_way_to_write_a_stream_gives_the_same_answer(site, model, settings):
    text = "Salz – 塩 – 🧂\u2028line\u2029end\n\n\"quoted\" \\ back"
    model.set(text=text, chunks=9, **REAL, **settings)
    place = site(demo={**BARE, "provider": "anthropic"}, limits=BUDGET)
    answer = place.start().chat(ASK, stream=True)
    assert answer.status == 200 and answer.text == text and answer.events()[-1] == "[DONE]"
    assert used(place) == 17
