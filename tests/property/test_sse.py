"""Server-sent events against a reader of whole texts written from the standard."""
import ctypes
from ctypes import CFUNCTYPE, c_bool, c_char_p, c_size_t, c_void_p

from hypothesis import example, given, strategies as st

from pure import LIB

EVENT_MAX, NAME_MAX = 65536, 32
STATE_ROOM = 4096  # above the struct's size, which only the C code knows

CALLBACK = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_void_p, c_size_t)
LIB.sse_init.argtypes = LIB.sse_free.argtypes = [c_void_p]
LIB.sse_init.restype = LIB.sse_free.restype = None
LIB.sse_feed.argtypes = [c_void_p, c_char_p, c_size_t, CALLBACK, c_void_p]
LIB.sse_feed.restype = c_bool


def read(pieces, stop_after=None):
    """The events of the pieces, and whether all was well."""
    events = []

    def see(_arg, name, data, n):
        events.append((name, ctypes.string_at(data, n)))
        assert ctypes.string_at(data + n, 1) == b"\0"
        return len(events) != stop_after

    state, callback = ctypes.create_string_buffer(STATE_ROOM), CALLBACK(see)
    LIB.sse_init(state)
    ok = True
    for piece in pieces:
        now = LIB.sse_feed(state, piece, len(piece), callback, None)
        assert ok or not now  # what has failed stays so
        ok = now
    LIB.sse_free(state)
    return events, ok


def expected(text):
    """The standard's algorithm on a whole text (WHATWG HTML, 9.2.6), of data and event."""
    text = text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events, data, name = [], None, b""
    for line in text.split(b"\n")[:-1]:  # what has no end is no line
        if not line:
            if data is not None:
                events.append((name or b"message", data))
            data, name = None, b""
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data = value if data is None else data + b"\n" + value
        elif field == b"event":
            name = value[:NAME_MAX - 1].split(b"\0")[0]
    return events


def cut(text, places):
    edges = [0, *sorted({p % (len(text) + 1) for p in places}), len(text)]
    return [text[a:b] for a, b in zip(edges, edges[1:])]


ends = st.sampled_from([b"\n", b"\r", b"\r\n"])
lines = st.one_of(
    st.sampled_from([b"", b"data", b"data:", b"data: ", b"event", b"event:", b":", b": note",
                     b"id: 1", b"retry: 1", b"datax: 1", b" data: 1", b"\xef\xbb\xbfdata: 1",
                     b"data: [DONE]", b"event: " + b"n" * 40, b"event: a\0b", b"data: a\0b"]),
    st.text(max_size=20).map(lambda t: b"data: " + t.encode("utf-8", "ignore")),
    st.binary(max_size=12))
texts = st.builds(
    lambda mark, parts: mark + b"".join(line + end for line, end in parts),
    st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"]),
    st.lists(st.tuples(lines, ends), max_size=12))


@given(texts, st.lists(st.integers(0, 500), max_size=20))
@example("data: \u00e9\u2028\U0001f600\n\n".encode(), [7, 9, 11, 12, 13, 14])
def test_f31_f32_any_split_gives_the_standards_events(text, places):
    assert read(cut(text, places)) == (expected(text), True)


@given(texts)
def test_f31_f32_byte_by_byte(text):
    assert read([text[i:i + 1] for i in range(len(text))]) == (expected(text), True)


@given(texts, ends)
def test_f31_line_endings_are_all_the_same(text, end):
    plain = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert read([plain.replace(b"\n", end)])[0] == expected(plain)


@given(texts, texts)
def test_f30_comments_change_nothing(before, after):
    assert read([before, b"\n: something\n:\n", after])[0] == read([before, b"\n", after])[0]


@given(st.integers(EVENT_MAX - 3, EVENT_MAX + 3), st.integers(1, 9000))
def test_f32_the_size_of_an_event_is_bounded(n, step):
    text = b"data: a\n\ndata: " + b"x" * n + b"\n\ndata: b\n\n"
    events, ok = read([text[i:i + step] for i in range(0, len(text), step)])
    assert ok == (n <= EVENT_MAX)
    assert events == (expected(text) if ok else expected(text)[:1])


@given(texts, st.integers(1, 5), st.integers(1, 9))
def test_reading_stops_where_it_is_told_to(text, count, step):
    events, ok = read([text[i:i + step] for i in range(0, len(text), step)], stop_after=count)
    assert events == expected(text)[:count]
    assert ok == (len(expected(text)) < count)
