"""Origins and the visitor's cookie against plain models of their texts."""
import base64
import hashlib
import hmac
import ipaddress
import re

from hypothesis import example, given, strategies as st

import pure

NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.I)


def authority(text):
    """(host, port or None) of "host[:port]", or None."""
    match = re.fullmatch(r"(\[[0-9a-f:.]*\]|[^\[\]:]*)(:[1-9][0-9]{0,4})?", text, re.I)
    if not match or int((match[2] or ":1")[1:]) > 65535:
        return None
    host, port = match[1].lower(), match[2] and int(match[2][1:])
    try:
        if host.startswith("["):
            address = ipaddress.IPv6Address(host[1:-1])
            return None if address.ipv4_mapped else (address, port)
        if host.rpartition(".")[2].isdigit():
            return ipaddress.IPv4Address(host), port
    except ValueError:
        return None
    return (host, port) if NAME.fullmatch(host) and len(host) <= 253 else None


def model(text):
    """(https, host, port), or None."""
    scheme = re.match(r"https?://", text, re.I)
    found = scheme and authority(text[scheme.end():])
    if not found:
        return None
    https = scheme[0].lower() == "https://"
    return https, found[0], found[1] or (443 if https else 80)


def of_c(text):
    found = pure.origin(text.encode("latin-1"))
    if not found:
        return None
    https, host, port = found
    host = host.decode()
    if host.startswith("["):
        return https, ipaddress.IPv6Address(host[1:-1]), port
    if host.rpartition(".")[2].isdigit():
        return https, ipaddress.IPv4Address(host), port
    return https, host, port


names = st.one_of(
    st.from_regex(r"[a-zA-Z0-9_-]{1,6}(\.[a-zA-Z0-9-]{1,6}){0,3}", fullmatch=True),
    st.integers(0, 2**32 - 1).map(lambda n: str(ipaddress.IPv4Address(n))),
    st.integers(0, 2**128 - 1).map(lambda n: f"[{ipaddress.IPv6Address(n)}]"),
    st.integers(0, 2**128 - 1).map(lambda n: f"[{ipaddress.IPv6Address(n).exploded.upper()}]"),
    st.text("a1.:[]-/@ ,", max_size=12), st.sampled_from(["a" * 63, "a" * 64, "a." * 126 + "a"]))
ports = st.one_of(st.just(""), st.integers(0, 70000).map(lambda n: f":{n}"),
                  st.sampled_from([":080", ":443", ":80", ":", ":+80", ":8o", "/"]))
schemes = st.sampled_from(["http://", "https://", "HTTPS://", "http:/", "ftp://", ""])
origins = st.builds(lambda *parts: "".join(parts), schemes, names, ports)


@given(st.one_of(origins, st.text(st.characters(min_codepoint=1, max_codepoint=255))))
@example("null")
def test_an_origin_is_what_the_model_takes(text):
    assert of_c(text) == model(text)


@given(st.sampled_from(["http://", "https://"]), names, names, ports, ports,
       st.one_of(st.none(), st.integers(0, 70000).map(str), st.text("0123 a", max_size=6)),
       st.booleans())
def test_whose_host_it_is(scheme, name, other, port, host_port, server_port, same):
    origin, host = scheme + name + port, (name if same else other) + host_port
    expected, found = model(origin), authority(host)
    if not expected:
        return
    own = 443 if expected[0] else 80
    is_host = found is not None and found[0] == expected[1]
    if is_host and found[1] is not None:
        is_host = found[1] == expected[2]
    elif is_host:
        is_host = expected[2] in (own, int(server_port) if server_port and re.fullmatch(
            "[1-9][0-9]{0,4}", server_port) else None)
    server_port = None if server_port is None else server_port.encode()
    assert pure.origin_is_host(origin.encode(), host.encode(), server_port) == is_host


keys = st.binary(min_size=32, max_size=32)
ids = st.binary(min_size=16, max_size=16)
days = st.integers(0, 9999999)


def coded(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


@given(keys, ids, days, st.integers(-40, 10))
def test_a_cookie_is_what_the_model_writes(key, id_, day, later):
    text = b"1." + coded(id_) + b".%d" % day
    text += b"." + coded(hmac.digest(key, b"cookie\0" + text, hashlib.sha256)[:16])
    assert pure.cookie_write(key, id_, day) == text
    good = -1 <= -later <= 30
    assert pure.cookie_read(key, text, day - later) == ((id_, day) if good else None)


@given(keys, keys, ids, days)
def test_F41_of_another_site(key, other, id_, day):
    text = pure.cookie_write(key, id_, day)
    assert (pure.cookie_read(other, text, day) is None) == (key != other)


@given(keys, ids, days, st.data())
def test_F41_any_change(key, id_, day, data):
    text = pure.cookie_write(key, id_, day)
    at = data.draw(st.integers(0, len(text)))
    away = data.draw(st.integers(0, 3))
    changed = text[:at] + data.draw(st.binary(max_size=3)) + text[at + away:]
    assert (pure.cookie_read(key, changed, day) is None) == (changed != text)


@given(keys, st.one_of(st.binary(max_size=120), st.from_regex(
    rb"1\.[A-Za-z0-9_-]{22}\.20000\.[A-Za-z0-9_-]{22}", fullmatch=True)))
def test_F41_no_text_is_a_cookie_by_chance(key, text):
    assert pure.cookie_read(key, text, 20000) is None


US = b"pennygate_0123abcd"
parts = st.one_of(
    st.builds(lambda *p: b"".join(p), st.sampled_from([b"", b" ", b"\t "]),
              st.sampled_from([US, b"x" + US, US + b"x", b"a", b""]),
              st.sampled_from([b"=", b" = ", b""]),
              st.sampled_from([b"v", b'"v"', b'"', b"", b' "v w" ', b"v=w"])),
    st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=8).map(
        lambda s: s.encode("latin-1")))


@given(st.lists(st.lists(st.tuples(parts, st.sampled_from([b";", b","])), max_size=5),
                max_size=4))
def test_F41_how_a_cookie_is_found(lists):
    headers = [b"".join(p + end for p, end in parts_) for parts_ in lists]
    values = []
    for part in re.split(b"[;,]", b";".join(headers)):
        name, equals, value = part.partition(b"=")
        if equals and name.strip(b" \t") == US:
            value = value.strip(b" \t")
            values.append(value[1:-1] if re.fullmatch(b'".*"', value, re.S) else value)
    expected = len(values), values[0] if len(values) == 1 else None
    assert pure.cookie_find(headers, US) == expected
