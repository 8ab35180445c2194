"""The README names every library that the program is linked with or loads, and no others."""
import re
import subprocess

from harness import BUILT, ROOT

TABLE = re.search(r"^\| library \|.*\n\|[-|]+\n((?:\|.*\n)+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)[1]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.splitlines()]
NAMED = {name for row in ROWS for name in re.findall(r"`-l(\w+)`", row[1])}
OF_THE_COMPILER = {"c", "m", "gcc_s", "asan", "ubsan", "tsan"}


def test_the_link_line_is_the_table():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    libs = re.search(r"^libs = ((?:.*\\\n)*.*)", makefile, re.M)[1]
    assert NAMED == set(re.findall(r"-l(\w+)", libs))


def test_the_program_needs_no_more():
    dynamic = subprocess.run(["readelf", "-d", BUILT], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(?:lib)?([a-z_]+)", dynamic))
    assert needed - {"ld"} <= NAMED | OF_THE_COMPILER
    assert {"fcgi", "lmdb", "bearssl", "jansson", "confuse"} <= needed


def test_each_has_a_version_and_a_licence():
    assert len(ROWS) > 5
    for name, _, version, licence, _ in ROWS:
        assert re.search(r"\d\.\d", version), name
        assert re.fullmatch(r"(Open Market|OpenLDAP|MIT|ISC|curl|LGPL)\b.*", licence), name
