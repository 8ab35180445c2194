#!/usr/bin/python3
"""A stand-in for OpenWrt's uci over the files of UCI_DIRECTORY, and what the recorder needs of it.

usage: uci [-q] get|show|set|delete|add_list|commit|batch ...
       uci shell PACKAGE                    assignments, as config_load makes them
       uci validate PACKAGE TYPE SECTION NAME:DATATYPE[:DEFAULT] ...
"""
import os
import pathlib
import re
import shlex
import sys

WORDS = re.compile(r"'(?:[^']|'\\'')*'|\"(?:[^\"\\]|\\.)*\"|[^\s'\"#]+|#[^\n]*|\n|[ \t]+|['\"].*", re.S)
# How many words a line has that begins with this one.
SHAPES = {"config": (2, 3), "option": (2, 3), "list": (3, 3)}


class Fault(Exception):
    pass


class Config:
    """Sections in order: {name: (type, {option: text, or a list of texts})}. A line that is none is a
    Fault, or left out: so config_load has it, which does without."""

    def __init__(self, package, lenient=False):
        self.path = pathlib.Path(os.environ["UCI_DIRECTORY"]) / package
        self.sections = {}
        section = None
        for words in lines_of(self.path.read_text(encoding="utf-8") if self.path.exists() else ""):
            least, most = SHAPES.get(words[0], (1, 0))
            if not least <= len(words) <= most or (section is None and words[0] != "config"):
                if not lenient:
                    raise Fault(f"Parse error at '{words[0]}'")
            elif words[0] == "config":
                name = words[2] if len(words) > 2 else f"cfg{len(self.sections):02x}"
                section = self.sections.setdefault(name, (words[1], {}))[1]
            elif words[0] == "option" and "".join(words[2:]):
                section[words[1]] = words[2]
            elif words[0] == "list":
                section.setdefault(words[1], []).append(words[2])

    def write(self):
        text = ""
        for name, (kind, options) in self.sections.items():
            text += f"\nconfig {kind} '{name}'\n"
            for option, value in options.items():
                for one in value if isinstance(value, list) else [value]:
                    word = "list" if isinstance(value, list) else "option"
                    text += f"\t{word} {option} {quoted(one)}\n"
        self.path.write_text(text, encoding="utf-8")
        self.path.chmod(0o600)


def quoted(text):
    """As uci writes it: a quote ends the quotes, stands for itself, and begins them again."""
    return "'" + text.replace("'", "'\\''") + "'"


def lines_of(text):
    """The words of each line; within quotes a line may go on, to the end of all if they do not end."""
    words, word = [], None
    for match in re.finditer(r"\\'|" + WORDS.pattern, text + "\n", re.S):
        piece = match[0]
        if piece[0] in "'\"" and (piece[0] != piece[-1] or len(piece) == 1):
            yield ["unterminated"]
        elif piece == "\n" or piece.isspace():
            if word is not None:
                words.append(word)
            word = None
            if "\n" in piece and words:
                yield words
                words = []
        elif piece[0] == "#" and word is None:
            continue
        else:
            word = (word or "") + bare(piece)


def bare(piece):
    if piece == "\\'":
        return "'"
    if piece[0] == "'":
        return piece[1:-1].replace("'\\''", "'")
    if piece[0] == '"':
        return re.sub(r"\\(.)", r"\1", piece[1:-1], flags=re.S)
    return piece


def split(path):
    package, _, rest = path.partition(".")
    section, _, option = rest.partition(".")
    return Config(package), section, option


def get(path):
    config, section, option = split(path)
    kind, options = config.sections.get(section, (None, {}))
    value = options.get(option) if option else kind
    if value is None:
        return 1
    print(" ".join(value) if isinstance(value, list) else value)
    return 0


def show(package):
    Config(package)
    return 0


def put(assignment, listed=False):
    path, _, value = assignment.partition("=")
    config, section, option = split(path)
    if not option:
        config.sections.setdefault(section, (value, {}))
    elif section not in config.sections:
        return 1
    elif listed:
        config.sections[section][1].setdefault(option, []).append(value)
    else:
        config.sections[section][1][option] = value
    config.write()
    return 0


def delete(path):
    config, section, option = split(path)
    if section not in config.sections or (option and option not in config.sections[section][1]):
        return 1
    if option:
        del config.sections[section][1][option]
    else:
        del config.sections[section]
    config.write()
    return 0


def batch():
    return max([command(shlex.split(line)) for line in sys.stdin if line.strip()], default=0)


def shell(package):
    config = Config(package, lenient=True)
    print("CONFIG_SECTIONS=" + shlex.quote(" ".join(config.sections)))
    for section, (kind, options) in config.sections.items():
        print(f"CONFIG_{section}_TYPE={shlex.quote(kind)}; config_cb {shlex.quote(kind)} {section}")
        for option, value in options.items():
            for one in value if isinstance(value, list) else [value]:
                print(f"{'list' if isinstance(value, list) else 'option'}_cb {option} {shlex.quote(one)}")
            if isinstance(value, list):
                print(f"CONFIG_{section}_{option}_LENGTH={len(value)}")
                for n, one in enumerate(value, 1):
                    print(f"CONFIG_{section}_{option}_ITEM{n}={shlex.quote(one)}")
                value = " ".join(value)
            print(f"CONFIG_{section}_{option}={shlex.quote(value)}")
    print("config_cb ''")
    return 0


def fits(kind, value):
    """As OpenWrt's validate_data sees it, which takes more than whoever wrote the datatype may think."""
    if isinstance(value, list):  # the last one decides
        return fits(kind, value[-1])
    if kind.startswith("list("):
        return all(fits(kind[5:-1], one) for one in value.split())
    if kind.startswith("or("):
        return value.removesuffix('"') in re.findall(r'"([^"]*)"', kind)
    if kind == "bool":
        return value.lower() in "0 1 on off true false yes no enabled disabled".split()
    if kind == "port":
        return bool(re.fullmatch(r"\s*[+-]?[0-9]+", value)) and int(value) < 65536
    if kind == "uinteger":
        return bool(re.fullmatch(r"0[xX][0-9a-fA-F]+|[0-9]+", value))
    assert kind == "string", kind
    return True


def validate(package, kind, section, *options):
    there, values = Config(package).sections.get(section, (None, {}))
    if there != kind:
        return 1
    parsed = [re.fullmatch(r'(\w+):((?:[^:(]|\([^)]*\))*)(?::(.*))?', word).groups() for word in options]
    wrong = [name for name, what, _ in parsed if name in values and not fits(what, values[name])]
    if wrong:
        for name, _, _ in parsed:
            print(f"{name}={values.get(name)}", file=sys.stderr)
    return 1 if wrong else 0


def command(words):
    words = [word for word in words if word != "-q"]
    what, *more = words
    if what == "commit":
        with open(os.environ["RECORD"], "a", encoding="utf-8") as file:
            file.write("uci commit\t" + "\t".join(more) + "\n")
        return int(os.path.exists(os.environ["UCI_DIRECTORY"] + "/.full"))
    return {"get": get, "show": show, "set": put, "delete": delete, "batch": batch, "shell": shell,
            "validate": validate, "add_list": lambda path: put(path, True)}[what](*more)


def main():
    try:
        return command(sys.argv[1:])
    except Fault as fault:
        if "-q" not in sys.argv:
            print(f"uci: {fault}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
