"""A strict reader of OpenMetrics 1.0 text: whatever a scraper could stumble over is an error here.

Stricter than the standard in what this program need not do: metadata comes as TYPE, UNIT, HELP;
there are no exemplars and no timestamps; all metrics of a family have the same label names; a
histogram has a sum.
"""
import dataclasses
import re
from decimal import Decimal

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

# What may follow a family's name in its samples; the first must be there.
SUFFIXES = {
    "counter": ("_total", "_created"),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
    "info": ("_info",),
}
METADATA = ("TYPE", "UNIT", "HELP")
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"')
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Wrong(Exception):
    """The text is not OpenMetrics; says which line, and why."""


@dataclasses.dataclass
class Family:
    name: str
    type: str = None
    unit: str = None
    help: str = None
    samples: list = dataclasses.field(default_factory=list)  # (suffix, labels, value)

    def of(self, suffix="", **labels):
        """The value of the one sample with these labels; None if there is none."""
        found = [value for ends, has, value in self.samples if ends == suffix and has == labels]
        return found[0] if found else None

    def all(self, suffix, label):
        """The values of all samples of one label, by its value."""
        return {has[label]: value for ends, has, value in self.samples if ends == suffix}


def need(condition, why):
    if not condition:
        raise Wrong(why)


def unescape(text, escapes):
    def one(found):
        need(found.group() in escapes, f"the escape {found.group()}")
        return escapes[found.group()]
    return re.sub(r"\\.?", one, text, flags=re.S)


def number(text):
    """Decimal, which holds all digits that are written."""
    if text in ("+Inf", "-Inf"):
        return Decimal(text.replace("Inf", "Infinity"))
    need(NUMBER.match(text), f"{text!r} is no number")
    return Decimal(text)


def labels_of(text):
    """The labels at the text's begin, and what follows them."""
    labels = {}
    if not text.startswith("{"):
        return labels, text
    text = text[1:]
    while not text.startswith("}"):
        found = LABEL.match(text)
        need(found, f"{text!r} begins with no label")
        name, value = found.groups()
        need(not name.startswith("__"), f"the label {name} is reserved")
        need(name not in labels, f"the label {name} is there twice")
        labels[name] = unescape(value, ESCAPES)
        text = text[found.end():]
        need(text[:1] in (",", "}"), "no comma between labels")
        need(not text.startswith(",}"), "a comma after the last label")
        text = text[1:] if text.startswith(",") else text
    need(labels, "braces without a label")
    return labels, text[1:]


class Reader:
    def __init__(self):
        self.families = {}
        self.family = None
        self.taken = {}  # names of samples, and whose they are

    def take(self, name):
        owner = self.taken.setdefault(name, self.family.name)
        need(owner == self.family.name, f"{name} is also a name of {owner}")

    def metadata(self, line):
        words = line.split(" ", 3)
        need(len(words) == 4 and words[0] == "#" and words[1] in METADATA, "no metadata, and no sample")
        kind, name, text = words[1:]
        need(NAME.match(name), f"{name!r} is no name")
        if self.family is None or self.family.name != name:
            need(kind == "TYPE", "a family begins with its type")
            need(name not in self.families, f"{name} has come before")
            self.end_family()
            self.family = self.families[name] = Family(name)
        need(not self.family.samples, "metadata after samples")
        for later in METADATA[METADATA.index(kind):]:
            need(getattr(self.family, later.lower()) is None, f"{kind} after {later}")
        getattr(self, kind.lower())(text)

    def type(self, text):
        need(text in SUFFIXES, f"the type {text!r}")
        self.family.type = text
        need(not self.family.name.endswith(("_total", "_created", "_bucket", "_count", "_sum", "_info")),
             "a family's name ends like a sample's")
        self.take(self.family.name)
        for suffix in SUFFIXES[text]:
            self.take(self.family.name + suffix)

    def unit(self, text):
        need(text and self.family.name.endswith("_" + text), "the name does not end with the unit")
        need(self.family.type != "info", "an info with a unit")
        self.family.unit = text

    def help(self, text):
        self.family.help = unescape(text, ESCAPES)

    def sample(self, line):
        found = re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line)
        need(found, "no name")
        name, family = found.group(), self.family
        need(family is not None and name.startswith(family.name), f"{name} outside of its family")
        suffix = name[len(family.name):]
        need(suffix in SUFFIXES[family.type], f"{name} is no sample of a {family.type}")
        labels, rest = labels_of(line[found.end():])
        need(rest.startswith(" "), "no blank before the value")
        value = number(rest[1:])
        need(all(has != labels for ends, has, _ in family.samples if ends == suffix),
             f"{name} is there twice with these labels")
        family.samples.append((suffix, labels, value))

    def end_family(self):
        if self.family is None:
            return
        need(self.family.help, "a family without help")
        CHECKS[self.family.type](self.family)


def metrics_of(family, without=()):
    """The family's samples, by labels, in groups; no group is interrupted by another."""
    groups, last = {}, None
    for suffix, labels, value in family.samples:
        key = tuple(sorted((name, text) for name, text in labels.items() if name not in without))
        need(key == last or key not in groups, "samples of one metric are not together")
        groups.setdefault(key, []).append((suffix, labels, value))
        last = key
    need(len({tuple(name for name, _ in key) for key in groups}) <= 1, "labels that not all metrics have")
    return groups.values()


def check_counter(family):
    for group in metrics_of(family):
        suffixes = [suffix for suffix, _, _ in group]
        need(suffixes in (["_total"], ["_total", "_created"]), f"a counter of {suffixes}")
        need(all(value >= 0 and value.is_finite() for _, _, value in group), "a counter below zero, or without end")


def check_gauge(family):
    need(all(len(group) == 1 for group in metrics_of(family)), "a gauge of more than one sample")


def check_info(family):
    for group in metrics_of(family):
        need(len(group) == 1 and group[0][2] == 1, "an info that is not 1")


def check_histogram(family):
    for group in metrics_of(family, without=("le",)):
        buckets = [(labels.get("le"), value) for suffix, labels, value in group if suffix == "_bucket"]
        others = {suffix: value for suffix, labels, value in group if suffix != "_bucket"}
        need(all("le" not in labels for suffix, labels, _ in group if suffix != "_bucket"), "le outside of a bucket")
        need(buckets and all(bound is not None for bound, _ in buckets), "a bucket without le")
        need(all("." in bound or bound == "+Inf" for bound, _ in buckets), "a bound without a point")
        bounds = [number(bound) for bound, _ in buckets]
        counts = [value for _, value in buckets]
        need(all(a < b for a, b in zip(bounds, bounds[1:])), "bounds that do not ascend")
        need(buckets[-1][0] == "+Inf", "no last bucket")
        need(all(a <= b for a, b in zip(counts, counts[1:])), "buckets that are not cumulative")
        need(all(n == n.to_integral_value() and n >= 0 for n in counts), "a bucket of parts")
        need({"_count", "_sum"} <= others.keys() <= {"_count", "_sum", "_created"}, "no count, or no sum")
        need(others["_count"] == counts[-1], "a count that is not the last bucket's")
        need(others["_sum"] >= 0, "a sum below zero")


CHECKS = {"counter": check_counter, "gauge": check_gauge, "histogram": check_histogram, "info": check_info}


def parse(data):
    """The families of the text, which is bytes, by name; or Wrong."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Wrong(f"no UTF-8: {error}") from error
    need(text.endswith("\n# EOF\n") or text == "# EOF\n", "does not end with # EOF")
    reader, n = Reader(), 0
    try:
        for n, line in enumerate(text[:-len("# EOF\n")].split("\n")[:-1], 1):
            need("\r" not in line, "a carriage return")
            (reader.metadata if line.startswith("#") else reader.sample)(line)
        reader.end_family()
    except Wrong as why:
        raise Wrong(f"line {n}: {why}") from None
    return reader.families
