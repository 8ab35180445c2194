"""The completion for bash offers what the program's tables have, no more and no less."""
import re
import subprocess

import pytest

from conftest import ROOT

SOURCE = (ROOT / "gateway/cli.c").read_text(encoding="utf-8")
FLAGS = {bit: name for name, bit in re.findall(r'\{"(--?[a-z]+)", (?:"[^"]*"|NULL), (FLAG_\w+),', SOURCE)}
VALUES = re.findall(r'\{"(--?[a-z]+)", "', SOURCE)
COMMANDS = {name: (bits, forms) for name, bits, forms in re.findall(
    r'\{"([a-z-]+)",\s*((?:FLAG_\w+(?: \| )?)+|0),\s*("[^"]*"|NULL),', SOURCE)}


def complete(*words):
    """What is offered for the last of the words."""
    script = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pennygate; '
              'for word in "${COMPREPLY[@]}"; do echo "$word"; done')
    done = subprocess.run(["bash", "-c", script, "bash", ROOT / "platform/debian/completion.bash", "pennygate", *words],
                          capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""
    return sorted(done.stdout.splitlines())


def test_the_tables_are_read():
    assert len(COMMANDS) >= 15 and len(FLAGS) >= 13
    assert complete("") == sorted([*COMMANDS, "-c"])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_its_flags_and_words(name):
    bits, forms = COMMANDS[name]
    first = {form.split()[0] for form in forms.strip('"').split("|") if form} if forms != "NULL" else set()
    assert complete(name, "-") == sorted(FLAGS[bit] for bit in re.findall(r"FLAG_\w+", bits))
    if first == {"FILE"}:
        assert complete(name, "Make") == ["Makefile"]
    else:
        words = {*first, *COMMANDS} - {"COMMAND"} if "COMMAND" in first else first
        assert set(complete(name, "")) - set(FLAGS.values()) == words
    assert complete("-c", "file", name, "-") == complete(name, "-"), "a flag's value is no command"


@pytest.mark.parametrize("flag", VALUES)
def test_a_value_is_not_completed_as_a_word(flag):
    command = next(name for name, (bits, _) in COMMANDS.items() if any(FLAGS[b] == flag for b in bits.split(" | ")))
    assert not set(complete(command, flag, "")) & ({*COMMANDS, *FLAGS.values()} - {"adopt"})


def test_a_beginning_is_completed():
    assert complete("sta") == ["stats"]
    assert complete("keys", "re") == ["revoke"]
    assert complete("keys", "revoke", "ann", "") == ["--json", "--limit", "-c"]
