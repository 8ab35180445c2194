"""The pure C code, for property tests: structs and functions as in its headers.

PENNYGATE_PURE names the shared library built from what the Makefile calls pure. Without it
nothing here can be proven, so importing fails.
"""
import ctypes
import os
from ctypes import (POINTER, Structure, byref, c_bool, c_char, c_char_p, c_int, c_int32, c_int64,
                    c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p)

_PATH = os.environ.get("PENNYGATE_PURE")
if not _PATH:
    raise RuntimeError("PENNYGATE_PURE must name the shared library of the pure C code "
                       "(make build/libpure.so)")
LIB = ctypes.CDLL(os.path.abspath(_PATH))

SLIDING, HOUR, DAY, MONTH = range(4)
PARTS, SLOTS_MAX = 8, 9
ADDRESS, VISITOR, ACCOUNT, KEY, ANONYMOUS, EVERYONE, BYPASS = range(7)
SUBJECTS = 7
CALLS, TOKENS, COST, CONCURRENT = range(4)
AMOUNT_MAX = 1 << 62
UNLIMITED = (1 << 64) - 1
ADMITTED, REFUSED, TOO_LONG = range(3)
REFUSED_CONCURRENT, REFUSED_BURST = 0, 1
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
FORWARDED_LIST, FORWARDED_RFC7239 = range(2)


class ZoneChange(Structure):
    _fields_ = [("kind", c_int), ("month", c_int), ("week", c_int), ("day", c_int),
                ("second", c_int32)]


class Zone(Structure):
    _fields_ = [("standard_s", c_int32), ("summer_s", c_int32), ("has_summer", c_bool),
                ("starts", ZoneChange), ("ends", ZoneChange)]


class Window(Structure):
    _fields_ = [("kind", c_int), ("seconds", c_uint32)]


class Slot(Structure):
    _fields_ = [("number", c_int64), ("end_ms", c_int64), ("period", c_int64)]


class ClockNow(Structure):
    _fields_ = [("wall_ms", c_int64), ("boot_ms", c_int64), ("boot_id", c_uint8 * 16)]


class StoreTime(Structure):
    _fields_ = [("time_ms", c_int64), ("boot_ms", c_int64), ("hold_until_ms", c_int64), ("before_ms", c_int64),
                ("boot_id", c_uint8 * 16)]


class Amounts(Structure):
    _fields_ = [("of", c_uint64 * 3)]


class Limit(Structure):
    _fields_ = [("name", c_char * 32), ("subject", c_int), ("unit", c_int), ("window", Window),
                ("max", c_uint64), ("dry_run", c_bool), ("pace", c_bool)]


class CounterSlot(Structure):
    _fields_ = [("frees_ms", c_int64), ("used", Amounts)]


class Counter(Structure):
    _fields_ = [("subject", c_int), ("window", Window), ("slots", c_uint32),
                ("begins_ms", c_int64), ("slot", CounterSlot * SLOTS_MAX)]


class RuleInput(Structure):
    _fields_ = [("limits", POINTER(Limit)), ("n_limits", c_uint32),
                ("counters", POINTER(Counter)), ("n_counters", c_uint32), ("present", c_uint32),
                ("live", c_uint32 * SUBJECTS), ("weights", Amounts), ("now_ms", c_int64)]


class Standing(Structure):
    _fields_ = [("limit", Limit), ("remaining", c_uint64), ("more_ms", c_int64)]


class Verdict(Structure):
    _fields_ = [("outcome", c_int), ("refusal", c_int), ("limit", c_uint32),
                ("until_ms", c_int64), ("dry", c_uint64), ("n_standings", c_uint32), ("standings", Standing * 8)]


class Address(Structure):
    _fields_ = [("family", c_uint8), ("bytes", c_uint8 * 16)]


class Prefix(Structure):
    _fields_ = [("family", c_uint8), ("bits", c_uint8), ("bytes", c_uint8 * 16)]


class Origin(Structure):
    _fields_ = [("https", c_bool), ("port", c_uint16), ("host", c_char * 254)]


class Cookie(Structure):
    _fields_ = [("id", c_uint8 * 16), ("day", c_int64)]


def _declare(name, result, *arguments):
    function = getattr(LIB, name)
    function.restype, function.argtypes = result, arguments
    return function


_zone_parse = _declare("zone_parse", c_bool, c_char_p, POINTER(Zone))
_zone_offset_s = _declare("zone_offset_s", c_int32, POINTER(Zone), c_int64)
_zone_day = _declare("zone_day", c_int64, POINTER(Zone), c_int64)
_zone_month = _declare("zone_month", c_int64, POINTER(Zone), c_int64)
_zone_next_day_ms = _declare("zone_next_day_ms", c_int64, POINTER(Zone), c_int64)
_zone_next_month_ms = _declare("zone_next_month_ms", c_int64, POINTER(Zone), c_int64)
zone_month_first_day = _declare("zone_month_first_day", c_int64, c_int64)
_zone_from_tzfile = _declare("zone_from_tzfile", c_bool, c_void_p, c_uint64, c_char * 64)
_window_parse = _declare("window_parse", c_bool, c_char_p, POINTER(Window))
window_code = _declare("window_code", c_uint32, Window)
_window_slots = _declare("window_slots", c_uint32, Window, POINTER(Zone), c_int64,
                         Slot * SLOTS_MAX)
_window_frees_ms = _declare("window_frees_ms", c_int64, Window, POINTER(Zone), c_int64,
                            POINTER(Slot))
_window_begins_ms = _declare("window_begins_ms", c_int64, Window, POINTER(Zone), c_int64)
window_period = _declare("window_period", c_int64, Window, c_int64)
_window_oldest_period = _declare("window_oldest_period", c_int64, Window, POINTER(Zone), c_int64)
_storetime_now = _declare("storetime_now", c_int64, POINTER(StoreTime), POINTER(ClockNow))
_storetime_advance = _declare("storetime_advance", None, POINTER(StoreTime), POINTER(ClockNow))
_storetime_erase_ms = _declare("storetime_erase_ms", c_int64, POINTER(StoreTime), c_int64)
_storetime_wait_ms = _declare("storetime_wait_ms", c_int64, POINTER(StoreTime),
                              POINTER(ClockNow), c_int64)
_rule_decide = _declare("rule_decide", None, POINTER(RuleInput), POINTER(Verdict))
paced = _declare("rule_paced", c_uint64, c_uint64, c_int64, c_int64, c_int64)
_rule_limits = _declare("rule_limits", c_uint32, POINTER(Limit), c_uint32, POINTER(Limit),
                        c_uint32, POINTER(Limit))
_amounts_settle = _declare("amounts_settle", None, POINTER(Amounts), POINTER(Amounts),
                           POINTER(Amounts))
_address_parse = _declare("address_parse", c_bool, c_char_p, c_size_t, POINTER(Address))
_address_equal = _declare("address_equal", c_bool, POINTER(Address), POINTER(Address))
_prefix_parse = _declare("prefix_parse", c_bool, c_char_p, POINTER(Prefix))
_prefix_has = _declare("prefix_has", c_bool, POINTER(Prefix), POINTER(Address))
_forwarded_find = _declare("forwarded_find", None, POINTER(Address), c_char_p, c_int,
                           POINTER(Prefix), c_uint32, POINTER(Address))
_origin_parse = _declare("origin_parse", c_bool, c_char_p, POINTER(Origin))
_origin_is_host = _declare("origin_is_host", c_bool, POINTER(Origin), c_char_p, c_char_p)
_cookie_write = _declare("cookie_write", None, c_char_p, POINTER(Cookie), c_char * 96)
_cookie_read = _declare("cookie_read", c_bool, c_char_p, c_char_p, c_size_t, c_int64,
                        POINTER(Cookie))
_cookie_find = _declare("cookie_find", c_uint32, POINTER(c_char_p), c_uint32, c_char_p,
                        POINTER(c_void_p), POINTER(c_size_t))


def zone(rule):
    """The zone of a rule, or None if it does not parse."""
    out = Zone()
    return out if _zone_parse(rule.encode(), byref(out)) else None


def offset_s(z, t_ms):
    return _zone_offset_s(byref(z), t_ms)


def day(z, t_ms):
    return _zone_day(byref(z), t_ms)


def month(z, t_ms):
    return _zone_month(byref(z), t_ms)


def next_day_ms(z, t_ms):
    return _zone_next_day_ms(byref(z), t_ms)


def next_month_ms(z, t_ms):
    return _zone_next_month_ms(byref(z), t_ms)


def rule_of_tzfile(content):
    out = (c_char * 64)()
    return out.value.decode() if _zone_from_tzfile(content, len(content), out) else None


def window(text):
    out = Window()
    if not _window_parse(text.encode(), byref(out)):
        raise ValueError(text)
    return out


def slots(w, z, t_ms):
    out = (Slot * SLOTS_MAX)()
    return out[:_window_slots(w, byref(z), t_ms, out)]


def frees_ms(w, z, t_ms, slot):
    return _window_frees_ms(w, byref(z), t_ms, byref(slot))


def begins_ms(w, z, t_ms):
    return _window_begins_ms(w, byref(z), t_ms)


def oldest_period(w, z, t_ms):
    return _window_oldest_period(w, byref(z), t_ms)


def clock(wall_ms, boot_ms, boot):
    return ClockNow(wall_ms, boot_ms, (c_uint8 * 16)(*boot.to_bytes(16, "big")))


def storetime_now(s, now):
    return _storetime_now(byref(s), byref(now))


def storetime_advance(s, now):
    _storetime_advance(byref(s), byref(now))


def storetime_erase_ms(s, t_ms):
    return _storetime_erase_ms(byref(s), t_ms)


def storetime_wait_ms(s, now, until_ms):
    return _storetime_wait_ms(byref(s), byref(now), until_ms)


def decide(limits, counters, weights, now_ms, present=(1 << SUBJECTS) - 1, live=()):
    """The verdict; what was given must be left as it was."""
    limits, counters = (Limit * len(limits))(*limits), (Counter * len(counters))(*counters)
    request = RuleInput(limits, len(limits), counters, len(counters), present,
                        (c_uint32 * SUBJECTS)(*live), Amounts((c_uint64 * 3)(*weights)), now_ms)
    before = bytes(limits), bytes(counters), bytes(request)
    out = Verdict()
    _rule_decide(byref(request), byref(out))
    assert before == (bytes(limits), bytes(counters), bytes(request))
    return out


def limits_with_own(site, own):
    """The limits that hold for a caller whose key has limits of its own."""
    out = (Limit * (len(site) + len(own)))()
    n = _rule_limits((Limit * len(site))(*site), len(site), (Limit * len(own))(*own), len(own), out)
    return out[:n]


def settle(value, reserved, real):
    """What a slot's amounts become."""
    v, a, b = (Amounts((c_uint64 * 3)(*x)) for x in (value, reserved, real))
    _amounts_settle(byref(v), byref(a), byref(b))
    return list(v.of)


def address(text):
    """The address of bytes, or None."""
    out = Address()
    return out if _address_parse(text, len(text), byref(out)) else None


def address_equal(a, b):
    return _address_equal(byref(a), byref(b))


def prefix(text):
    out = Prefix()
    return out if _prefix_parse(text, byref(out)) else None


def prefix_has(p, a):
    return _prefix_has(byref(p), byref(a))


def forwarded_find(peer, value, form, trusted):
    out = Address()
    _forwarded_find(byref(peer), value, form, (Prefix * len(trusted))(*trusted), len(trusted),
                    byref(out))
    return out


def origin(text):
    """(https, host, port), or None."""
    out = Origin()
    return (out.https, out.host, out.port) if _origin_parse(text, byref(out)) else None


def origin_is_host(text, http_host, server_port):
    out = Origin()
    assert _origin_parse(text, byref(out))
    return _origin_is_host(byref(out), http_host, server_port)


def cookie_write(key, id_, day):
    out = (c_char * 96)()
    _cookie_write(key, byref(Cookie((c_uint8 * 16)(*id_), day)), out)
    return out.value


def cookie_read(key, text, today):
    """(id, day), or None."""
    out = Cookie()
    ok = _cookie_read(key, text, len(text), today, byref(out))
    return (bytes(out.id), out.day) if ok else None


def cookie_find(headers, name):
    """How many, and the value if it is one."""
    value, n = c_void_p(), c_size_t()
    held = (c_char_p * len(headers))(*headers)
    found = _cookie_find(held, len(headers), name, byref(value), byref(n))
    return found, ctypes.string_at(value.value, n.value) if found == 1 else None
