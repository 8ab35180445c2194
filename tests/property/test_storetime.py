"""Store time under clocks that step anywhere, machines that start again, and races of writes."""
from fractions import Fraction

import pure
from hypothesis import given, settings, strategies as st
from machine import T0, Machine, spans, steps

STEP_MS = HOLD_MS = 24 * pure.HOUR_MS

events = st.lists(
    st.one_of(st.tuples(st.just("tick"), spans), st.tuples(st.just("step"), steps),
              st.tuples(st.just("boot"), spans, steps), st.just(("write",)), st.just(("write",))),
    max_size=30)


@settings(max_examples=500)
@given(events=events)
def test_F44_it_never_goes_back_and_is_what_the_design_says(events):
    """The model: the clock, or if that is behind, half of boot time since, in exact fractions."""
    m = Machine()
    exact, boot_ms, boot = Fraction(T0), m.boot_ms, m.boot
    for event in events:
        m.play(event)
        if event == ("write",):
            time = pure.storetime_now(m.stored, m.now())
        else:
            time = m.time()
        if m.boot == boot:
            slow = exact + Fraction(m.boot_ms - boot_ms, 2)
        else:
            slow = int(exact) + Fraction(m.boot_ms, 2)
        assert time == int(max(slow, m.wall_ms))
        assert time >= m.stored.time_ms
        if event == ("write",):
            assert m.stored.time_ms == time >= int(exact)
            exact, boot_ms, boot = max(slow, Fraction(m.wall_ms)), m.boot_ms, m.boot


@settings(max_examples=300)
@given(events=events, length_ms=st.integers(1, 40 * pure.DAY_MS), data=st.data())
def test_F44_every_window_ends_at_the_latest_after_twice_its_length(events, length_ms, data):
    m = Machine()
    for event in events:
        m.play(event)
    m.write()
    ends_ms, left_ms = m.stored.time_ms + length_ms, 2 * length_ms
    while left_ms > 0:
        ms = data.draw(st.integers(max(1, left_ms // 4), left_ms))
        left_ms -= ms
        m.tick(ms)
        m.wall_ms += data.draw(steps)
        if data.draw(st.booleans()):
            m.write()
    assert m.time() >= ends_ms


@settings(max_examples=300)
@given(events=events, passed=st.lists(st.integers(0, pure.DAY_MS), max_size=8))
def test_F44_no_window_is_shorter_than_it_says_while_the_clock_is_behind(events, passed):
    m = Machine()
    for event in events:
        m.play(event)
    m.write()
    m.wall_ms = 0
    begun, real_ms = m.stored.time_ms, 0
    for ms in passed:
        m.boot_ms += ms
        real_ms += ms
        m.write()
        assert real_ms // 2 == m.stored.time_ms - begun or (
            # One half of a millisecond may be left over from before.
            (real_ms + 1) // 2 == m.stored.time_ms - begun)
        assert m.stored.time_ms - begun <= real_ms


@settings(max_examples=500)
@given(events=events, ahead_ms=st.one_of(st.integers(-10, 20), st.integers(0, 40 * pure.DAY_MS)),
       data=st.data())
def test_waits_are_exact_whatever_is_written_meanwhile(events, ahead_ms, data):
    m = Machine()
    for event in events:
        m.play(event)
    until_ms = m.time() + ahead_ms
    wait_ms = m.wait_ms(until_ms)
    assert (wait_ms == 0) == (ahead_ms <= 0)
    left_ms = wait_ms
    while left_ms > 1:
        ms = data.draw(st.integers(max(1, left_ms // 3), left_ms - 1))
        m.tick(ms)
        left_ms -= ms
        if data.draw(st.booleans()):
            m.write()
        assert m.time() < until_ms
        assert m.wait_ms(until_ms) == left_ms
    m.tick(left_ms)
    assert m.time() >= until_ms


@settings(max_examples=300)
@given(times=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=40))
def test_writes_with_older_readings_count_no_time_twice(times):
    """Processes read the clock, wait for the write lock, and write out of order."""
    m = Machine()
    m.wall_ms = 0
    first_ms = m.boot_ms
    for ms, old_ms in times:
        m.boot_ms += ms
        reading = pure.clock(0, max(first_ms, m.boot_ms - old_ms), 1)
        before = m.stored.time_ms
        pure.storetime_advance(m.stored, reading)
        assert before <= m.stored.time_ms <= T0 + (m.boot_ms - first_ms) // 2
    m.write()
    assert m.stored.time_ms == T0 + (m.boot_ms - first_ms) // 2


@settings(max_examples=300)
@given(events=events)
def test_F44_nothing_that_a_step_ended_is_erased_for_a_day_of_store_time_after_it(events):
    m = Machine()
    hold_ms, before_ms = m.stored.hold_until_ms, 0
    for event in events:
        last, boot = m.stored.time_ms, bytes(m.stored.boot_id)
        stored_boot_ms = m.stored.boot_ms
        m.play(event)
        if event == ("write",):
            same = boot == bytes(m.now().boot_id)
            passed_ms = m.boot_ms - (stored_boot_ms if same else 0)
            if m.wall_ms - last - passed_ms > STEP_MS:
                hold_ms, before_ms = m.stored.time_ms + HOLD_MS, last
            assert m.stored.hold_until_ms == hold_ms
        assert pure.storetime_erase_ms(m.stored, m.time()) == (m.time() if m.time() >= hold_ms else before_ms)


any64 = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1),
                  st.sampled_from([-(1 << 63), -1, 0, 1, (1 << 63) - 1]))


@settings(max_examples=500)
@given(stored=st.tuples(any64, any64, any64, any64), now=st.tuples(any64, any64, any64),
       same=st.booleans(), until_ms=any64)
def test_hostile_values_never_take_it_back(stored, now, same, until_ms):
    s = pure.StoreTime(*stored, (pure.c_uint8 * 16)(*(0).to_bytes(16, "big")))
    reading = pure.clock(now[0], now[1], 0 if same else 1)
    before = pure.storetime_now(s, reading)
    assert 0 <= before and min(stored[0], 253402300799999) <= before
    assert pure.storetime_wait_ms(s, reading, until_ms) >= 0
    pure.storetime_advance(s, reading)
    assert s.time_ms == before <= pure.storetime_now(s, reading)
