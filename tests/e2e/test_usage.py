"""Usage and streams as providers really send them: F16 to F20, F22, F25, F26, F28 to F32."""
import json

import pytest

from harness import CHAT, limit, until

BARE = {"overhead-per-call": 0, "overhead-per-message": 0, "max-output-tokens": 40}
BUDGET = {"budget": limit("everyone", "tokens", "day", 1000000)}
ASK = "0123456789"  # 10 bytes: the worst case is 10 + 40 tokens
WORST = 50
REAL = {"prompt_tokens": 9, "completion_tokens": 8}


@pytest.fixture
def place(site):
    return site(demo=BARE, limits=BUDGET)


def used(place):
    """The budget's figure once the call has been settled."""
    place.settled()
    return place.used("budget")


@pytest.mark.parametrize("settings, stream, tokens", [
    # F16: asked for, and if it does not come the reservation stays
    ({"usage": "auto"}, True, 17),
    ({"usage": "auto"}, False, 17),
    ({"usage": "none"}, True, WORST),
    ({"usage": "none"}, False, WORST),
    # F17, F18: in an event without choices, or beside them
    ({"usage": "choices_missing"}, True, 17),
    ({"usage": "beside_choices"}, True, 17),
    # F19: running totals are not summed
    ({"usage": "running_totals"}, True, 17),
    # F20: null, {} or zeros after a real one
    ({"usage": "null_after"}, True, 17),
    ({"usage": "zeros_after"}, True, 17),
    # F29: counts that nobody can believe
    ({"usage": "string"}, True, WORST), ({"usage": "string"}, False, WORST),
    ({"usage": "negative"}, True, WORST), ({"usage": "negative"}, False, WORST),
    ({"usage": "fraction"}, True, WORST), ({"usage": "fraction"}, False, WORST),
    ({"usage": "huge"}, True, WORST), ({"usage": "huge"}, False, WORST),
    # more than was reserved, and believable: the difference is charged too
    ({"prompt_tokens": 30, "completion_tokens": 40}, True, 70),
    # 17 times what was reserved is not
    ({"prompt_tokens": 9, "completion_tokens": 681}, True, WORST),
    # F23: no finish and no end mark, F24: an error inside
    ({"cut": "middle"}, True, WORST),
    ({"error_in_200": "middle"}, True, WORST),
])
def test_what_is_charged(place, model, settings, stream, tokens):
    model.set(**{**REAL, **settings})
    answer = place.start().chat(ASK, stream=stream)
    assert answer.status == 200
    assert used(place) == tokens
    if tokens == WORST:  # F16: the owner can tell what was counted from what was not
        until(lambda: "usage=estimated" in place.servers[-1].log(), 5, "the line")
    if stream:
        assert model.last["stream_options"]["include_usage"] is True
        assert all(chunk.get("choices") != [] for chunk in answer.chunks())


def test_f22_cached_tokens_have_their_own_price(site, model):
    place = site(demo={**BARE, "price-input": "$1.00", "price-cached-input": "$0.25",
                       "price-output": "$2.00"},
                 limits={"spend": limit("everyone", "cost", "day", "$10.00")})
    model.set(usage="cached", prompt_tokens=100, completion_tokens=10)
    assert place.start().chat("x" * 100).status == 200
    place.settled()
    # 20 at $1.00, 80 at $0.25, 10 at $2.00 a million: in nano-dollars
    assert place.used("spend") == 20 * 1000 + 80 * 250 + 10 * 2000


@pytest.mark.parametrize("content, text", [
    ("plain", "plain"),
    ([{"type": "text", "text": "two "}, {"type": "text", "text": "parts"}], "two parts"),
    (None, None), (7, None), ({}, None), ([], None), ("", None), ([7], None), (True, None),
    ([{"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}], None),
    ([{"type": "text", "text": "and"}, {"type": "image_url", "image_url": {"url": "x"}}], None),
    ([{"type": "text"}], None), ([{"type": "text", "text": None}], None),
])
def test_f25_content_is_text_or_it_is_refused(place, model, content, text):
    answer = place.start().chat([{"role": "user", "content": content}])
    if text is None:
        assert answer.status == 400 and answer.error["param"].startswith("messages[0].content")
        assert model.stats()["started"] == 0
    else:
        assert answer.status == 200 and model.last["messages"][-1]["content"] == text


@pytest.mark.parametrize("text", ["salt", "日本語の質問", "🧂🌊", "é", "\u2028"])
@pytest.mark.parametrize("escaped", [True, False])
def test_f26_the_bound_is_utf8_bytes_however_written(place, model, text, escaped):
    model.set(usage="none")
    body = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=escaped)
    answer = place.start().open("POST", CHAT, body.encode(),
                                [("Content-Type", "application/json")]).answer()
    assert answer.status == 200
    assert used(place) == len(text.encode()) + 40
    assert model.last["messages"][-1]["content"] == text


def test_f26_overhead_and_system_prompt_are_part_of_the_bound(site, model):
    place = site(demo={**BARE, "overhead-per-call": 100, "overhead-per-message": 7,
                       "system-prompt-file": "/proc/self/mounts"}, limits=BUDGET, init=False)
    prompt = place.directory / "prompt"
    prompt.write_text("Be brief. ☺", encoding="utf-8")
    place.demo["system-prompt-file"] = prompt
    place.write()
    place.init()
    model.set(usage="none")
    assert place.start().chat(ASK).status == 200
    assert used(place) == 100 + 2 * 7 + len("Be brief. ☺".encode()) + 10 + 40
    assert model.last["messages"][0] == {"role": "system", "content": "Be brief. ☺"}


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_f28_the_output_cap_has_the_models_name_and_no_other(site, model, field):
    server = site(demo={**BARE, "output-field": field}).start()
    assert server.chat(fields={"max_tokens": 7, "max_completion_tokens": 9}).status == 200
    caps = {name: value for name, value in model.last.items() if "tokens" in name}
    assert caps == {field: 40}


UNUSUAL = "Salz – 塩 – 🧂\u2028line\u2029end\n\n\"quoted\" \\ back"


@pytest.mark.parametrize("settings", [
    {},
    {"comments": True},                                        # F30
    {"line_ending": "crlf"}, {"line_ending": "cr"},            # F31
    {"bom": True}, {"no_space": True}, {"bom": True, "line_ending": "crlf", "no_space": True},
    {"split": 1}, {"split": 2}, {"split": 3}, {"split": 7},    # F32
    {"split": 1, "line_ending": "crlf", "comments": True},
    {"multi_line_data": True}, {"multi_line_data": True, "line_ending": "cr", "split": 5},
    {"obfuscation": True},
    {"done": False},                                           # F23: an end after finish is fine
], ids=str)
def test_f30_f31_f32_every_way_to_write_a_stream_gives_the_same_answer(place, model, settings):
    model.set(text=UNUSUAL, chunks=9, **REAL, **settings)
    answer = place.start().chat(ASK, stream=True)
    assert answer.status == 200
    assert answer.text == UNUSUAL
    assert answer.events()[-1] == "[DONE]"
    assert answer.chunks()[-1]["choices"][0]["finish_reason"] == "stop"
    assert used(place) == 17


@pytest.mark.parametrize("settings", [
    {"event_bytes": 70000},            # F32: the size of an event is bounded
    {"cut": "middle"}, {"cut": "silent_middle"},  # F23
    {"error_in_200": "middle"},        # F24
], ids=str)
def test_a_stream_that_goes_wrong_ends_with_an_error_event(place, model, settings):
    model.set(chunks=6, **settings)
    answer = place.start().chat(ASK, stream=True)
    if answer.status == 200:
        last = json.loads(answer.events()[-1])
        assert last["error"]["code"] == "upstream_error"
        assert "[DONE]" not in answer.events()
    else:
        assert answer.code == "upstream_error"
    assert used(place) == WORST


def test_f27_reasoning_that_eats_the_whole_cap_is_said_plainly(place, model):
    model.set(reasoning=True, finish="length", **REAL)
    answer = place.start().chat(ASK, stream=True)
    assert answer.status == 200 and answer.text == ""
    assert answer.chunks()[-1]["choices"][0]["finish_reason"] == "length"
    assert model.count == 1
