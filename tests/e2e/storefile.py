"""What is in a store, read from its file without the program: the live rows of LMDB's tree, and
the hash that a caller has in them, for whoever holds the secret."""
import hashlib
import hmac
import struct

META, HISTORY, DAY, COUNTER, RESERVATION = range(1, 6)
ADDRESS, VISITOR, ACCOUNT, KEY, ANONYMOUS, EVERYONE = range(6)
DAY_CODE = 2**31 + 2
PAGE_HEAD, NODE_HEAD, BRANCH, LEAF, BIG = 16, 8, 1, 2, 1


def _meta(data, page):
    """(transaction id, root page, page size) of one of the two meta pages."""
    magic, version = struct.unpack_from("=II", data, page + PAGE_HEAD)
    assert (magic, version) == (0xBEEFC0DE, 1), "no file of LMDB"
    dbs = page + PAGE_HEAD + 24  # behind magic, version, address, map size
    size = struct.unpack_from("=I", data, dbs)[0]  # of pages, in the free list's record
    root = struct.unpack_from("=Q", data, dbs + 48 + 40)[0]
    return struct.unpack_from("=Q", data, dbs + 2 * 48 + 8)[0], root, size


def _walk(data, size, number):
    at = number * size
    flags, lower = struct.unpack_from("=HH", data, at + 10)
    for n in range((lower - PAGE_HEAD) // 2):
        node = at + struct.unpack_from("=H", data, at + PAGE_HEAD + 2 * n)[0]
        low, high, bits, width = struct.unpack_from("=HHHH", data, node)
        key = data[node + NODE_HEAD:node + NODE_HEAD + width]
        if flags & BRANCH:
            yield from _walk(data, size, low | high << 16 | bits << 32)
        else:
            assert flags & LEAF and not bits & BIG
            begin = node + NODE_HEAD + width
            yield key, data[begin:begin + (low | high << 16)]


def _content(path):
    """Of a file that a running process may be writing at this moment: what two reads agree on."""
    before, now = None, path.read_bytes()
    while now != before:
        before, now = now, path.read_bytes()
    return now


def rows(place):
    """All rows that are there now: (key, value) in the order of keys."""
    data = _content(place.data_file)
    _, _, size = _meta(data, 0)
    _, root, _ = max(_meta(data, 0), _meta(data, size))
    return list(_walk(data, size, root)) if root < 2**64 - 1 else []


def day_rows(place):
    """The counters of calendar days: {(end in ms, subject, hash): calls}."""
    return {(struct.unpack_from("!Q", key, 1)[0], key[9], key[10:]): struct.unpack_from("!Q", value, 1)[0]
            for key, value in rows(place) if key[0] == DAY}


def mac(key, label, data):
    return hmac.digest(key, label + b"\0" + data, "sha256")


def period_key(place, code, period):
    """The key of a window in a period, from the file beside the store."""
    data = place.periods.read_bytes()
    for at in range(26, len(data) - 32, 52):
        found, _, first = struct.unpack_from("!IQq", data, at)
        if found == code:
            key = data[at + 20:at + 52]
            for _ in range(period - first):
                key = mac(key, b"next", b"")
            return key
    raise AssertionError("no such window")


def hash_of(place, code, period, subject, identity):
    """The subject as rows have it: needs the secret and a period key that is not gone."""
    secret = bytes.fromhex(place.secret.read_text(encoding="ascii").strip())
    key = mac(secret, b"period", period_key(place, code, period))
    return mac(key, b"subject", bytes([subject]) + identity)[:16]


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()
