"""Addresses and forwarding headers (F37, F39) against Python's ipaddress and a plain model."""
import ipaddress

from hypothesis import example, given, strategies as st

import pure
from pure import FORWARDED_LIST, FORWARDED_RFC7239

MAPPED = 0xffff << 32
FORMS = [FORWARDED_LIST, FORWARDED_RFC7239]

# Bits among which whole zero groups are frequent, as in real addresses.
groups = st.one_of(st.just(0), st.integers(0, 0xffff))
ipv6 = st.lists(groups, min_size=8, max_size=8).map(
    lambda g: ipaddress.IPv6Address(b"".join(x.to_bytes(2, "big") for x in g)))
ipv4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
addresses = st.one_of(ipv4, ipv6)


def plain(address):
    """An address as it is counted: the mapped ones are IPv4."""
    return getattr(address, "ipv4_mapped", None) or address


def of_c(a):
    raw = bytes(a.bytes)
    assert a.family == 6 or not any(raw[4:])
    return ipaddress.IPv4Address(raw[:4]) if a.family == 4 else ipaddress.IPv6Address(raw)


def to_c(address):
    out = pure.Address(address.version)
    out.bytes[:len(address.packed)] = address.packed
    return out


def subject(address):
    address = plain(address)
    return address.packed[:4] if address.version == 4 else address.packed[:8]


def cased(draw, text):
    return "".join(c.upper() if draw(st.booleans()) else c for c in text)


def spell_ipv6(draw, address):
    """Groups with more or fewer zeros, any case, a run of zero groups left out, dotted end."""
    values = [int.from_bytes(address.packed[i:i + 2], "big") for i in range(0, 16, 2)]
    parts = [cased(draw, f"{v:0{draw(st.integers(1, 4))}x}") for v in values]
    if draw(st.booleans()):
        parts[6:] = [str(ipaddress.IPv4Address(address.packed[12:]))]
    runs = [(a, b) for a in range(len(parts)) for b in range(a + 1, len(parts) + 1)
            if all(p.strip("0") == "" for p in parts[a:b])]
    if not runs or draw(st.booleans()):
        return ":".join(parts)
    a, b = draw(st.sampled_from(runs))
    return ":".join(parts[:a]) + "::" + ":".join(parts[b:])


def bare(draw, address):
    if address.version == 4:
        if draw(st.integers(0, 3)):
            return str(address)
        address = ipaddress.IPv6Address(MAPPED | int(address))
    return spell_ipv6(draw, address)


def spell(draw, address):
    """Any spelling of it as a hop: brackets, zone, port."""
    text = bare(draw, address)
    port = draw(st.sampled_from(["", "", ":1", ":65535"]))
    if ":" not in text:
        return text + port
    zone = draw(st.sampled_from(["", "", "%1", "%br-lan.7"])) if len(text) < 40 else ""
    return f"[{text}{zone}]{port}" if draw(st.booleans()) else text + zone


@given(st.data(), addresses)
def test_F39_every_spelling_is_the_same_caller(data, address):
    a, b = (pure.address(spell(data.draw, address).encode()) for _ in range(2))
    assert of_c(a) == of_c(b) == plain(address)
    assert pure.address_equal(a, b)


@given(addresses, addresses, st.booleans())
def test_F39_a_subject_is_an_address_or_a_64(a, b, near):
    if near and a.version == b.version == 6:
        b = ipaddress.IPv6Address(a.packed[:8] + b.packed[8:])
    x, y = (pure.address(str(i).encode()) for i in (a, b))
    same = plain(a).version == plain(b).version and subject(a) == subject(b)
    assert pure.address_equal(x, y) == same


@given(st.text("0123456789abF:.[]%/ x", max_size=50))
@example("1::2:3:4:5:6:7:8")
@example("::ffff:1.2.3.04")
def test_F39_nothing_else_is_an_address(text):
    found = pure.address(text.encode())
    if found is None:
        return
    host = text.partition("]")[0][1:] if text.startswith("[") else text
    if text.count(":") == 1:
        host = text.partition(":")[0]
    assert plain(ipaddress.ip_address(host.partition("%")[0])) == of_c(found)


@st.composite
def networks(draw):
    address = draw(addresses)
    bits = draw(st.integers(0, address.max_prefixlen))
    return ipaddress.ip_network((address, bits), strict=False)


@given(st.data(), networks(), addresses)
def test_prefixes(data, network, other):
    mapped = network.version == 6 and plain(network.network_address).version == 4
    text = f"{bare(data.draw, network.network_address)}/{network.prefixlen}"
    if network.version == 4 and ":" in text:
        text = f"{text.partition('/')[0]}/{network.prefixlen + 96}"
    p = pure.prefix(text.encode())
    assert p is not None
    if mapped:  # ones at bits 80 to 95, so that a network that has them is longer
        network = ipaddress.ip_network((plain(network.network_address), network.prefixlen - 96))
    assert (p.family, p.bits) == (network.version, network.prefixlen)
    inside = network[data.draw(st.integers(0, network.num_addresses - 1))]
    if plain(inside).version == network.version:
        assert pure.prefix_has(p, to_c(inside))
    other = plain(other)
    assert pure.prefix_has(p, to_c(other)) == (other.version == network.version
                                               and other in network)


@given(addresses, st.integers(0, 130))
def test_a_prefix_with_bits_beyond_is_a_mistake(address, bits):
    try:
        ipaddress.ip_network((address, bits), strict=True)
        right = True
    except ValueError:
        right = False
    assert (pure.prefix(f"{address}/{bits}".encode()) is not None) == right


NETS = ["10.0.0.0/8", "192.0.2.7", "2001:db8:1::/48", "::ffff:172.16.0.0/108"]
MODEL_NETS = [ipaddress.ip_network(n) for n in
              ["10.0.0.0/8", "192.0.2.7", "2001:db8:1::/48", "172.16.0.0/12"]]
proxies = st.one_of(
    st.integers(0, 2**24 - 1).map(lambda n: ipaddress.IPv4Address((10 << 24) + n)),
    st.just(ipaddress.IPv4Address("192.0.2.7")),
    st.integers(0, 2**80 - 1).map(
        lambda n: ipaddress.IPv6Address(int(ipaddress.IPv6Address("2001:db8:1::")) + n)))
tokens = st.text("abcXYZ019!#$%&'*+-.^_`|~", min_size=1, max_size=8)
# Any host a caller names, as a careful proxy quotes it.
quoted = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20).map(
    lambda s: '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"')
spaces = st.sampled_from(["", " ", "\t", "  "])


def trusted(address):
    return any(plain(address) in n for n in MODEL_NETS)


def element_of(draw, address, form):
    """What a proxy appends for the address that spoke to it."""
    text = spell(draw, address)
    if form == FORWARDED_LIST:
        return text
    simple = all(c not in text for c in ":[]") and draw(st.booleans())
    pairs = [cased(draw, "for") + "=" + (text if simple else f'"{text}"')]
    for _ in range(draw(st.integers(0, 2))):
        name = "x" + draw(tokens)
        pairs.append(f"{name}={draw(st.one_of(tokens, quoted))}")
    return ";".join(draw(st.permutations(pairs)))


broken = st.sampled_from(["", "unknown", "for=_hidden", "for=unknown", "by=10.0.0.1",
                          'for="10.0.0.1', "for=10.0.0.1;for=10.0.0.2", "1.2.3.4.5", "for=",
                          'for="1.2.3.4"x', "10.0.0.1 10.0.0.2", "\\", "a\"b\"c"])
garbage = st.one_of(
    st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=60),
    st.text('for=",;\\ 10.0.0.1[]', max_size=60),
    st.integers(1, 3000).map(lambda n: "10.0.0.1," * n))


@given(st.data(), st.sampled_from(FORMS), st.one_of(proxies, addresses),
       st.lists(proxies, max_size=6), st.one_of(addresses, proxies, st.none()), garbage)
def test_F37_whoever_spoke_to_the_first_trusted_proxy(data, form, peer, hops, caller, left):
    """A caller, or what cannot be read (None), behind proxies: anything may stand left of it."""
    elements = [element_of(data.draw, hop, form) for hop in hops]
    last = data.draw(broken) if caller is None else element_of(data.draw, caller, form)
    untrusted = caller is None or not trusted(caller)
    if untrusted and data.draw(st.booleans()):
        last = left + "," + last
    value = last + "".join(f"{data.draw(spaces)},{data.draw(spaces)}{e}" for e in elements)
    found = of_c(pure.forwarded_find(to_c(plain(peer)), value.encode("latin-1"), form,
                                     [pure.prefix(n.encode()) for n in NETS]))
    if not trusted(peer) or caller is None:
        assert found == plain(peer)
    else:
        assert found == plain(caller)


def split(value):
    """The elements of a Forwarded header that is well formed, read from the left."""
    parts, inside, escaped = [""], False, False
    for c in value:
        if c == "," and not inside:
            parts.append("")
            continue
        parts[-1] += c
        if escaped:
            escaped = False
        elif c == "\\":
            escaped = inside
        elif c == '"':
            inside = not inside
    return parts


@given(st.data(), st.lists(st.one_of(proxies, addresses), min_size=1, max_size=6))
def test_F37_read_from_the_right_as_from_the_left(data, hops):
    """The elements are told apart as by the grammar; the answer is none left of a stranger."""
    form = FORWARDED_RFC7239
    elements = [element_of(data.draw, hop, form) for hop in hops]
    value = ",".join(elements)
    assert split(value) == elements
    found = of_c(pure.forwarded_find(pure.address(b"10.0.0.1"), value.encode(), form,
                                     [pure.prefix(n.encode()) for n in NETS]))
    strangers = [i for i, hop in enumerate(hops) if not trusted(hop)]
    assert found == plain(hops[strangers[-1] if strangers else 0])


@given(garbage, st.sampled_from(FORMS))
def test_F37_any_text_counts_somebody_it_names_or_the_peer(text, form):
    peer = pure.address(b"10.0.0.9")
    found = of_c(pure.forwarded_find(peer, text.encode("latin-1"), form,
                                     [pure.prefix(n.encode()) for n in NETS]))
    again = of_c(pure.forwarded_find(peer, b"8.8.8.8," + text.encode("latin-1"), form,
                                     [pure.prefix(n.encode()) for n in NETS]))
    if not trusted(found):  # settled: what stands left of it changes nothing
        assert again == found
