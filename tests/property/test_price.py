"""Prices against exact fractions: worst cases are upper bounds, real ones are rounded up once."""
import ctypes
import json
import re
from ctypes import POINTER, Structure, byref, c_bool, c_char, c_char_p, c_size_t, c_uint32, c_uint64
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import assume, given, strategies as st

from pure import AMOUNT_MAX, CALLS, COST, LIB, TOKENS, Amounts

PRICE_MAX = 1_000_000_000_000
TOKENS_MAX = 4_194_304
BELIEVED = 16


class Price(Structure):
    _fields_ = [("known", c_bool), ("input", c_uint64), ("cached", c_uint64),
                ("written", c_uint64), ("output", c_uint64), ("per_call", c_uint64),
                ("cap", c_uint32), ("thinking", c_uint32), ("overhead_per_call", c_uint32),
                ("overhead_per_message", c_uint32), ("factor_milli", c_uint32)]


class Request(Structure):
    _fields_ = [("bytes", c_size_t), ("messages", ctypes.c_uint), ("extra", c_uint64)]


class Usage(Structure):
    _fields_ = [("known", c_bool), ("input", c_uint64), ("cached", c_uint64),
                ("written", c_uint64), ("output", c_uint64), ("doubtful", c_bool), ("lacks_input", c_bool)]

    def as_tuple(self):
        return (self.known, self.input, self.cached, self.written, self.output)


LIB.price_worst.argtypes = [POINTER(Price), POINTER(Request), POINTER(Amounts),
                            POINTER(c_uint64), POINTER(c_uint64)]
LIB.price_worst.restype = None
LIB.price_real.argtypes = [POINTER(Price), POINTER(Usage), POINTER(Amounts)]
LIB.price_real.restype = None
LIB.usage_believable.argtypes = [POINTER(Usage), c_uint64, c_uint64]
LIB.usage_believable.restype = c_bool
LIB.usage_merge.argtypes = [POINTER(Usage), POINTER(Usage)]
LIB.usage_merge.restype = None
LIB.price_parse.argtypes = [c_char_p, c_uint64, POINTER(c_uint64)]
LIB.price_parse.restype = c_bool
LIB.price_format.argtypes = [c_uint64, c_char * 32]
LIB.price_format.restype = c_char_p


def worst(p, r):
    """The amounts and the two parts of the tokens."""
    out, tokens_in, tokens_out = Amounts(), c_uint64(), c_uint64()
    LIB.price_worst(byref(p), byref(r), byref(out), byref(tokens_in), byref(tokens_out))
    return list(out.of), tokens_in.value, tokens_out.value


def real(p, u):
    out = Amounts()
    LIB.price_real(byref(p), byref(u), byref(out))
    return list(out.of)


def exact(p, uncached, cached, written, output):
    """The cost in nano-dollars, rounded up once."""
    millionths = (uncached * p.input + cached * p.cached + written * p.written +
                  output * p.output)
    return ceil(Fraction(millionths, 1_000_000)) + p.per_call


# Small numbers find rounding, large ones overflow.
def up_to(most):
    return st.one_of(st.integers(0, min(most, 2000)), st.integers(0, most),
                     st.integers(max(0, most - 5), most))


money = up_to(PRICE_MAX)
prices = st.builds(Price, known=st.just(True), input=money, cached=money, written=money,
                   output=money, per_call=money, cap=up_to(TOKENS_MAX // 2),
                   thinking=up_to(TOKENS_MAX // 2), overhead_per_call=up_to(10_000),
                   overhead_per_message=up_to(100), factor_milli=up_to(4000))
requests = st.builds(Request, bytes=up_to(500_000), messages=up_to(1025), extra=up_to(100_000))
any_u32, any_u64 = up_to(2**32 - 1), up_to(2**64 - 1)
hostile_prices = st.builds(Price, known=st.booleans(), input=any_u64, cached=any_u64,
                           written=any_u64, output=any_u64, per_call=any_u64, cap=any_u32,
                           thinking=any_u32, overhead_per_call=any_u32,
                           overhead_per_message=any_u32, factor_milli=any_u32)
hostile_requests = st.builds(Request, bytes=up_to(2 ** (8 * ctypes.sizeof(c_size_t)) - 1),
                             messages=any_u32, extra=any_u64)


@given(prices, requests)
def test_the_worst_case_is_exact(p, r):
    amounts, tokens_in, tokens_out = worst(p, r)
    assert tokens_in == (ceil(Fraction(r.bytes * p.factor_milli, 1000)) + p.overhead_per_call +
                         r.messages * p.overhead_per_message + r.extra)
    assert tokens_out == p.cap + p.thinking
    dearest = max(p.input, p.cached, p.written)
    total = tokens_in * dearest + tokens_out * p.output
    assert amounts == [1, tokens_in + tokens_out,
                       ceil(Fraction(total, 1_000_000)) + p.per_call]


@given(prices, requests, st.data())
def test_no_call_within_its_bounds_costs_more_than_its_worst_case(p, r, data):
    amounts, tokens_in, tokens_out = worst(p, r)
    assume(tokens_in > 0)
    used = data.draw(st.integers(1, tokens_in))  # no prompt has no tokens
    cached = data.draw(st.integers(0, used))
    written = data.draw(st.integers(0, used - cached))
    u = Usage(True, used, cached, written, data.draw(st.integers(0, tokens_out)))
    assert LIB.usage_believable(byref(u), tokens_in, tokens_out)
    came_to = real(p, u)
    assert came_to[CALLS] == 1
    assert came_to[TOKENS] == u.input + u.output <= amounts[TOKENS]
    assert came_to[COST] <= amounts[COST]


# Of one to four bytes a character, alone and as people mix them.
texts = st.one_of(st.text(max_size=200), st.text("🧂👩‍👩‍👧‍👦🇩🇪字海é\u0301\u2028\U0010ffff\"\\\n", max_size=200),
                  st.text("0123456789abcdef", max_size=400))


@given(prices, st.lists(texts, min_size=1, max_size=10), st.none() | texts, st.data())
def test_f26_however_text_is_cut_into_tokens_it_costs_no_more(p, messages, prompt, data):
    """A token is at least one byte of the UTF-8 of what is sent, whatever the tokeniser; to that
    comes no more than the overheads."""
    p.factor_milli = max(1000, p.factor_milli)
    sent = [json.loads(json.dumps(text)).encode() for text in [prompt or "", *messages]]
    count = len(messages) + (prompt is not None)
    amounts, _, _ = worst(p, Request(sum(len(text) for text in sent), count, 0))
    used = sum(data.draw(st.integers(0, len(text))) for text in sent)
    used += data.draw(st.integers(0, p.overhead_per_call + count * p.overhead_per_message))
    came_to = real(p, Usage(True, used, 0, 0, data.draw(st.integers(0, p.cap + p.thinking))))
    assert came_to[TOKENS] <= amounts[TOKENS] and came_to[COST] <= amounts[COST]


@pytest.mark.parametrize("text, tokens", [("字" * 400, 400), ("🧂" * 100, 300), ("\U0010ffff" * 50, 200)])
def test_f26_a_quarter_of_the_characters_is_no_bound(text, tokens):
    """So many tokens as tokenisers really make of them; the bytes are never fewer."""
    assert len(text) // 4 < tokens <= len(text.encode())


GPT = Price(True, 2_500_000_000, 2_500_000_000, 2_500_000_000, 10_000_000_000, 0, 500, 0, 64, 16, 1000)


@pytest.mark.parametrize("tokens_in, tokens_out, nano", [(500, 100, 45_000_000), (100_000, 4000, 5_800_000_000)])
def test_what_20_requests_of_reference_system_b_cost(tokens_in, tokens_out, nano):
    """$0.045 and $5.80: the same count, 129 times the cost."""
    assert 20 * real(GPT, Usage(True, tokens_in, 0, 0, tokens_out))[COST] == nano


@given(prices, requests, st.sampled_from(["bytes", "messages", "extra"]), st.integers(1, 1000))
def test_a_larger_request_never_weighs_less(p, r, field, more):
    before, _, _ = worst(p, r)
    setattr(r, field, getattr(r, field) + more)
    after, _, _ = worst(p, r)
    assert all(a >= b for a, b in zip(after, before))


@given(prices, requests, st.sampled_from([f[0] for f in Price._fields_[1:]]),
       st.integers(1, 1000))
def test_a_larger_price_or_cap_never_weighs_less(p, r, field, more):
    before, _, _ = worst(p, r)
    setattr(p, field, getattr(p, field) + more)
    after, _, _ = worst(p, r)
    assert all(a >= b for a, b in zip(after, before))


@given(hostile_prices, hostile_requests)
def test_f29_nothing_wraps_in_a_worst_case(p, r):
    """Saturated or at least the exact bound; never below it, never above AMOUNT_MAX."""
    amounts, tokens_in, tokens_out = worst(p, r)
    exact_in = (ceil(Fraction(r.bytes * p.factor_milli, 1000)) + p.overhead_per_call +
                r.messages * p.overhead_per_message + r.extra)
    assert tokens_in == min(exact_in, AMOUNT_MAX)
    total = exact_in * max(p.input, p.cached, p.written) + tokens_out * p.output
    assert AMOUNT_MAX >= amounts[TOKENS] >= min(exact_in + tokens_out, AMOUNT_MAX)
    assert AMOUNT_MAX >= amounts[COST] >= min(total // 1_000_000 + p.per_call, AMOUNT_MAX)


believable = up_to(BELIEVED * TOKENS_MAX)


@given(prices, believable, believable, believable, believable)
def test_the_real_case_is_rounded_up_once(p, uncached, cached, written, output):
    uncached, cached, written = uncached // 3, cached // 3, written // 3
    u = Usage(True, uncached + cached + written, cached, written, output)
    assert real(p, u) == [1, u.input + output, exact(p, uncached, cached, written, output)]


@given(hostile_prices, any_u64, any_u64, any_u64, any_u64)
def test_f29_nothing_wraps_in_a_real_case(p, used, cached, written, output):
    amounts = real(p, Usage(True, used, cached, written, output))
    assert amounts[TOKENS] == min(used + output, AMOUNT_MAX)
    assert amounts[COST] <= AMOUNT_MAX
    assert amounts[COST] >= min(output * p.output // 1_000_000, AMOUNT_MAX)
    assert amounts[COST] >= min(cached * p.cached // 1_000_000, AMOUNT_MAX)


@given(any_u64, any_u64, any_u64, any_u64, up_to(AMOUNT_MAX), up_to(AMOUNT_MAX))
def test_f29_what_is_believed(used, cached, written, output, reserved_in, reserved_out):
    expected = (0 < used and cached + written <= used <= BELIEVED * reserved_in and
                output <= BELIEVED * reserved_out)
    assert LIB.usage_believable(byref(Usage(True, used, cached, written, output)), reserved_in,
                                reserved_out) == expected
    assert not LIB.usage_believable(byref(Usage(False, used, cached, written, output)),
                                    reserved_in, reserved_out)


usages = st.builds(Usage, st.booleans(), any_u64, any_u64, any_u64, any_u64)


@given(st.lists(usages, max_size=6))
def test_f19_f20_reports_are_running_totals(reports):
    total = Usage()
    for report in reports:
        LIB.usage_merge(byref(total), byref(report))
    known = [r.as_tuple() for r in reports if r.known]
    expected = tuple(max(column) for column in zip(*known)) if known else (False, 0, 0, 0, 0)
    assert total.as_tuple() == expected


def parse(text, most=2**64 - 1):
    nano = c_uint64()
    return nano.value if LIB.price_parse(text.encode(), most, byref(nano)) else None


@given(st.integers(0, 18_446_744_072), st.text("0123456789", min_size=1, max_size=9),
       st.booleans())
def test_dollars_are_read_exactly(dollars, decimals, sign):
    text = ("$" if sign else "") + f"{dollars}.{decimals}"
    expected = Fraction(f"{dollars}.{decimals}") * 10**9
    assert parse(text) == expected
    assert parse(text, int(expected)) == expected
    if expected > 0:
        assert parse(text, int(expected) - 1) is None


@given(st.text("$0123456789.-+ exnainf_,", max_size=12))
def test_f8_what_is_no_plain_number_is_refused(text):
    plain = re.fullmatch(r"\$?(0|[1-9][0-9]*)(\.[0-9]{1,9})?", text)
    value = Fraction(text.lstrip("$")) * 10**9 if plain else None
    assert parse(text, PRICE_MAX) == (value if plain and value <= PRICE_MAX else None)


@given(any_u64)
def test_what_is_written_is_read_again(nano):
    text = LIB.price_format(nano, (c_char * 32)()).decode()
    assert Fraction(text[1:]) * 10**9 == nano
    assert text[0] == "$" and len(text.split(".")[1]) >= 2
    if nano < 18_446_744_073 * 10**9:
        assert parse(text) == nano
