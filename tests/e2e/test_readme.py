"""What the README shows is accepted: each line of a configuration, and what `check` says of the
example that it quotes."""
import json
import re

import pytest

from examples import fill
from harness import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = re.findall(r"^    ((?:limit [a-z-]+|site|bypass|dashboard|alerts|transcripts|server)\s+\{.*\})", TEXT, re.M)
IN_SITE = re.findall(r"^((?:    [a-z-]+ = .*\n)+)", TEXT, re.M)
QUOTED = re.search(r"^    costs {7}.*\n(?:    .*\n)+", TEXT, re.M)[0]


def test_there_are_some():
    assert len(LINES) >= 8
    assert {line.split()[0] for line in LINES} == {"limit", "bypass", "dashboard", "alerts", "transcripts"}
    assert {lines.split()[0] for lines in IN_SITE} == {"require", "trusted-proxies", "allowed-origins", "durability"}


@pytest.mark.parametrize("line", [*LINES, *IN_SITE])
def test_a_line_of_configuration_is_accepted(site, line):
    place = fill(site(init=False), "pennygate.conf")
    bypass = place.directory / "bypass"
    bypass.write_text("a-secret-of-the-owners-0123456789\n", encoding="ascii")
    bypass.chmod(0o600)
    place.own(bypass)
    run = place.directory / "run"
    run.mkdir(mode=0o700)
    place.own(run)
    line = line.replace("/etc/pennygate/bypass", str(bypass)).replace("/run/pennygate", str(run))
    text = place.config.read_text(encoding="utf-8")
    if line.startswith(" "):
        text = text.replace("site {", "site {\n" + line, 1)
    else:
        text += line + "\n"
    place.write(text)
    place.init()
    assert "0 faults" in place.run("check")


@pytest.mark.parametrize("command", re.findall(r"^    sudo pennygate ((?:keys add|forgive) .*?)(?:  +#.*)?$", TEXT, re.M))
def test_a_command_is_understood(site, command):
    fill(place := site(init=False), "pennygate.conf")
    place.init()
    assert place.run(*command.split())


def test_the_widget_is_as_described():
    """All that it is told by attributes, and all its words; and its weight."""
    source = (ROOT / "gateway/web/widget.js").read_text(encoding="utf-8")
    section = re.search(r"^## The widget\n.*?^## ", TEXT, re.M | re.S)[0]
    told = set(re.findall(r"\btold\.(\w+)|'(\w+)' in told", source))
    rows = re.findall(r"^\| (`data-.*?) \|", section, re.M)
    assert {"data-" + (a or b) for a, b in told} == set(re.findall(r"`([a-z-]+)`", " ".join(rows)))
    words = re.search(r"^const text = \{\n(.*?)^\};", source, re.M | re.S)[1]
    english = json.loads(re.search(r'^    \{"title".*?\}$', section, re.M | re.S)[0])
    assert re.findall(r"^  ([a-z]+): '(.*)',$", words, re.M) == list(english.items())
    assert (ROOT / "build/web/widget.js").stat().st_size < 12000


def test_check_says_what_is_quoted(site):
    place = fill(site(init=False), "pennygate.conf")
    place.init()
    assert " ".join(QUOTED.split()) in " ".join(place.run("check").split())
