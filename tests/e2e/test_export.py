"""A store goes to another machine, or comes back from a copy: as a text (export, import), or as its
files (adopt). Nobody gets a fresh budget by it."""
import json
import os
import shutil
import stat

import pytest

from harness import limit, until

LIMITS = {
    "visitor-day": limit("address", "calls", "day", 3),
    "spend": limit("everyone", "cost", "month", "$1.00"),
}


def files(place):
    return [place.data_file, place.store / "lock.mdb", place.periods]


def used_up(gate):
    """A site whose only visitor has had its three calls, with its server; nothing is open."""
    server = gate("spawned", limits=LIMITS)
    for _ in range(3):
        assert server.chat().status == 200
    assert server.chat().status == 429
    server.site.settled()
    return server


def figures(place):
    """All that stats says, but for what moves by itself, the time, and what the run directory has of
    this boot."""
    stats = place.stats()

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()
                    if not key.endswith("_ms") and key not in ("store", "time", "live")}
        return [plain(one) for one in value] if isinstance(value, list) else value

    return plain(stats)


def init_anew(place):
    """As BACKUP in the manual has it: the files are moved away, and others made in their place."""
    old = place.store / "old"
    old.mkdir()
    for path in files(place):
        path.rename(old / path.name)
    place.run("init")


def test_a_store_goes_away_and_comes_back(gate):
    server = used_up(gate)
    place = server.site
    token = place.run("keys", "add", "anna").split()[-1]
    text = place.directory / "store.jsonl"
    assert server.chat().status == 429, "a refusal that is in no row yet"
    until(lambda: sum(place.day()["refused"].values()) == 2, 5, "its figure")
    server.stop()
    before = figures(place)
    assert "which is as secret" in place.run("export", text)
    assert stat.S_IMODE(text.stat().st_mode) == 0o600
    assert place.secret.read_text(encoding="ascii").strip() not in text.read_text(encoding="ascii")
    init_anew(place)
    assert "imported" in place.run("import", text)
    assert figures(place) == before
    assert "anna" in place.run("keys", "list") and token not in text.read_text(encoding="ascii")
    again = place.directory / "again.jsonl"
    place.run("export", again)
    old, new = (path.read_text(encoding="ascii").splitlines() for path in (text, again))
    assert len(old) == len(new) and sum(a != b for a, b in zip(old, new)) <= 2, "but for the time, and the MAC"
    count = place.model.count
    server = place.start("spawned")
    assert server.chat().status == 429
    assert place.model.count == count
    assert place.run("import", text, check=False).returncode == 1


def test_every_line_is_json(gate):
    place = used_up(gate).site
    text = place.directory / "store.jsonl"
    place.run("export", text)
    lines = [json.loads(line) for line in text.read_text(encoding="ascii").splitlines()]
    assert lines[0] == {"pennygate": "store", "format": 1}
    assert {"meta", "history", "day", "counter"} <= {line["row"] for line in lines if "row" in line}
    assert lines[-1]["rows"] == sum("row" in line for line in lines)


def test_an_import_never_goes_over_what_has_counted(gate):
    """Also not under a running server, which goes on refusing."""
    server = used_up(gate)
    place = server.site
    text = place.directory / "store.jsonl"
    place.run("export", text)
    done = place.run("import", text, check=False)
    assert done.returncode == 1 and "has counted already" in done.stderr
    assert server.chat().status == 429


def test_a_file_that_is_none_is_refused_and_changes_nothing(gate):
    server = used_up(gate)
    place = server.site
    text, changed = place.directory / "store.jsonl", place.directory / "changed.jsonl"
    place.run("export", text)
    server.stop()
    init_anew(place)
    fresh = place.data()
    whole = text.read_bytes()
    lines = whole.splitlines(keepends=True)
    for content in (b"", b"{}\n", whole[:-1], whole[:-20], b"".join(lines[:-1]), whole + b"\n", os.urandom(5000),
                    whole.replace(b'"row":"day"', b'"row":"dry"'), b"".join(lines[:3] + lines[4:])):
        changed.write_bytes(content)
        changed.chmod(0o600)
        done = place.run("import", changed, check=False)
        assert done.returncode == 1 and "nothing was imported" in done.stderr, done.stderr
        assert place.data() == fresh
    changed.chmod(0o644)
    assert "chmod 600" in place.run("import", changed, check=False).stderr
    assert "regular" in place.run("import", place.directory, check=False).stderr
    assert place.run("import", place.directory / "none", check=False).returncode == 1
    place.run("import", text)


def test_an_export_goes_over_no_file(gate):
    place = used_up(gate).site
    text = place.directory / "store.jsonl"
    text.write_text("mine", encoding="ascii")
    done = place.run("export", text, check=False)
    assert done.returncode == 1 and "never writes over" in done.stderr
    assert text.read_text(encoding="ascii") == "mine"
    link = place.directory / "link"
    link.symlink_to(place.directory / "elsewhere")
    assert place.run("export", link, check=False).returncode == 1
    assert not (place.directory / "elsewhere").exists()


def test_an_export_that_fails_leaves_no_file(gate):
    server = used_up(gate)
    place = server.site
    server.stop()
    place.periods.unlink()
    text = place.directory / "store.jsonl"
    assert place.run("export", text, check=False).returncode == 1
    assert not text.exists()


def test_a_store_of_another_secret_takes_nothing(gate):
    server = used_up(gate)
    place = server.site
    text = place.directory / "store.jsonl"
    place.run("export", text)
    server.stop()
    shutil.rmtree(place.store)
    place.secret.unlink()
    place.init()
    done = place.run("import", text, check=False)
    assert done.returncode == 1 and "secret" in done.stderr
    server = place.start("spawned")
    assert server.chat().status == 200, "the new store is as good as it was"


def test_a_call_under_way_at_the_export_stays_charged(gate, model):
    model.set(gap_ms=20000)
    server = gate("spawned", limits=LIMITS)
    place = server.site
    call = server.begin(stream=True)
    until(lambda: place.stats()["open_streams"] == 1, 5, "the stream")
    text = place.directory / "store.jsonl"
    place.run("export", text)
    call.close()
    server.stop()
    init_anew(place)
    assert "1 calls that were under way stay charged" in place.run("import", text)
    day = place.day()
    assert (day["admitted"], day["unknown"]) == (1, 1)


def test_the_files_themselves_come_back_by_adopt(gate):
    """Stopped, copied, and later put back as a whole; without `run`, whose mark tells that they are old."""
    server = used_up(gate)
    place = server.site
    server.stop()
    copy = place.directory / "copy"
    shutil.copytree(place.store, copy, ignore=shutil.ignore_patterns("run"))
    server = place.start("spawned")
    for name in ("late", "later"):  # the last transaction alone would not tell
        place.run("keys", "add", name)
    server.stop()
    for path in files(place):
        path.unlink()
        shutil.copy(copy / path.name, path)
        path.chmod(0o600)
        place.own(path)
    server = place.start("spawned")
    refused = server.chat()
    assert refused.status == 503 and refused.code == "meter_unavailable"
    server.stop()
    assert "adopt" in place.run("export", place.directory / "no.jsonl", check=False).stderr
    assert "counts on" in place.run("adopt")
    assert "nothing to adopt" in place.run("adopt")
    assert "late" not in place.run("keys", "list")
    assert place.start("spawned").chat().status == 429


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_the_file_is_of_whoever_asks(gate):
    """Root's directory need not be the store's owner's."""
    server = used_up(gate)
    place = server.site
    private = place.directory / "private"
    private.mkdir(mode=0o700)
    text = private / "store.jsonl"
    place.run("export", text)
    assert text.stat().st_uid == 0
    server.stop()
    init_anew(place)
    place.run("import", text)
    assert place.data_file.stat().st_uid == place.store.stat().st_uid
