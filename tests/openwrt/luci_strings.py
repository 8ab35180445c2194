#!/usr/bin/python3
"""The strings of the LuCI app that are translated: those of the views, and the titles and descriptions
of its JSON files. Run, it writes the template po/templates/pennygate.pot from them."""
import ast
import json
import pathlib
import re

APP = pathlib.Path(__file__).resolve().parents[2] / "openwrt/luci/luci-app-pennygate"
TEMPLATE = APP / "po/templates/pennygate.pot"
LITERAL = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
CALL = re.compile(r"(?<![\w.])_\((\s*(?:" + LITERAL + r")\s*\))?")
JSON_KEYS = ("title", "description")


def views():
    return sorted(APP.glob("htdocs/**/*.js"))


def of_view(path):
    """Those of _('...'); any other argument would not be found by LuCI's own search either."""
    found = []
    for match in CALL.finditer(path.read_text(encoding="utf-8")):
        assert match.group(1), f"{path.name}: _() of something that is no string: at {match.start()}"
        found.append(ast.literal_eval(match.group(1).rstrip(")").strip()))
    return found


def of_json(value):
    if not isinstance(value, dict):
        return []
    own = [value[key] for key in JSON_KEYS if isinstance(value.get(key), str)]
    return own + [string for inner in value.values() for string in of_json(inner)]


def strings():
    """{string: the files that have it}, in order."""
    found = {}
    for path in views():
        for string in of_view(path):
            found.setdefault(string, []).append(path)
    for path in sorted(APP.glob("root/**/*.json")):
        for string in of_json(json.loads(path.read_text(encoding="utf-8"))):
            found.setdefault(string, []).append(path)
    return found


def quoted(string):
    return json.dumps(string, ensure_ascii=False)


def template():
    blocks = ['msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8"\n']
    for string, paths in strings().items():
        where = "".join(f"#: {path.relative_to(APP)}\n" for path in dict.fromkeys(paths))
        blocks.append(f'{where}msgid {quoted(string)}\nmsgstr ""\n')
    return "\n".join(blocks)


def entries(text):
    """{msgid: msgstr} of a template or a translation, its header left out."""
    found, key, value = {}, None, None
    for line in text.splitlines() + ["msgid \"\""]:
        if line.startswith("msgid "):
            if key:
                found[key] = value
            key, value, into = json.loads(line[6:]), "", "key"
        elif line.startswith("msgstr "):
            value, into = json.loads(line[7:]), "value"
        elif line.startswith('"'):
            key, value = (key + json.loads(line), value) if into == "key" else (key, value + json.loads(line))
    return found


if __name__ == "__main__":
    TEMPLATE.write_text(template(), encoding="utf-8")
