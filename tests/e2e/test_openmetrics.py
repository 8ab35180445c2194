"""The reader of OpenMetrics that the tests trust: it takes what is right, and refuses each thing that
is not, by its own name."""
import pathlib
import sys
from decimal import Decimal

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import openmetrics  # noqa: E402

GOOD = r"""# TYPE build info
# HELP build What it is.
build_info{version="0.1"} 1
# TYPE calls counter
# HELP calls Calls, \"quoted\" and \\ escaped.
calls_total{kind="a\\b\"c\nd"} 3
calls_created{kind="a\\b\"c\nd"} 1796022000.5
calls_total{kind="ü"} 0
calls_created{kind="ü"} 1796022000
# TYPE cost_dollars counter
# UNIT cost_dollars dollars
# HELP cost_dollars Money.
cost_dollars_total 12345678901.000000001
# TYPE heat gauge
# HELP heat None today.
# TYPE level gauge
# HELP level Below zero, and above everything.
level{of="a",to="b"} -1.5e3
level{of="a",to="c"} +Inf
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
# HELP wait_seconds How long.
wait_seconds_bucket{le="0.00005"} 1
wait_seconds_bucket{le="1.0"} 1
wait_seconds_bucket{le="+Inf"} 4
wait_seconds_count 4
wait_seconds_sum 17.25
wait_seconds_created 1796022000
# EOF
"""


def test_what_is_right_is_read():
    families = openmetrics.parse(GOOD.encode())
    assert list(families) == ["build", "calls", "cost_dollars", "heat", "level", "wait_seconds"]
    assert families["build"].of("_info", version="0.1") == 1
    assert families["calls"].help == 'Calls, "quoted" and \\ escaped.'
    assert families["calls"].all("_total", "kind") == {'a\\b"c\nd': 3, "ü": 0}
    assert families["calls"].of("_total", kind="none") is None
    assert families["cost_dollars"].of("_total") == Decimal("12345678901.000000001")
    assert families["heat"].samples == []
    assert families["level"].of(of="a", to="b") == -1500
    assert families["level"].of(of="a", to="c") == Decimal("Infinity")
    assert families["wait_seconds"].of("_bucket", le="+Inf") == 4
    assert openmetrics.parse(b"# EOF\n") == {}


# What is changed in the good text, for what, and what the reader says then.
BAD = {
    "the end is missing": ("# EOF\n", "", "does not end"),
    "something after the end": ("# EOF\n", "# EOF\nlevel 1\n", "does not end"),
    "the end in the middle": ("# TYPE heat", "# EOF\n# TYPE heat", "no metadata"),
    "no line feed at the end": ("# EOF\n", "# EOF", "does not end"),
    "an empty line": ("# TYPE heat", "\n# TYPE heat", "no name"),
    "a comment": ("# TYPE heat", "# heat is none\n# TYPE heat", "no metadata"),
    "line ends of another world": ("dollars_total 12345678901.000000001\n", "dollars_total 1\r\n", "carriage"),
    "a type that there is not": ("heat gauge", "heat temperature", "the type"),
    "a name that is none": ("# TYPE heat", "# TYPE 1heat", "is no name"),
    "a family without type": ("# TYPE heat gauge\n", "", "begins with its type"),
    "a family without help": ("# HELP heat None today.\n", "", "without help"),
    "help before unit": ("# UNIT cost_dollars dollars\n# HELP cost_dollars Money.\n",
                         "# HELP cost_dollars Money.\n# UNIT cost_dollars dollars\n", "UNIT after HELP"),
    "help twice": ("# HELP heat None today.\n", "# HELP heat None.\n# HELP heat None.\n", "HELP after HELP"),
    "a unit that the name has not": ("# UNIT cost_dollars dollars", "# UNIT cost_dollars euros", "the unit"),
    "a unit without a name before it": ("# UNIT cost_dollars dollars", "# UNIT cost_dollars cost_dollars", "the unit"),
    "a family in two parts": ("# TYPE level gauge\n# HELP level",
                              "# TYPE calls counter\n# HELP calls x\n# TYPE level gauge\n# HELP level", "come before"),
    "families that mix": ("heat None today.\n", "heat None today.\ncalls_total{kind=\"b\"} 1\n",
                          "outside of its family"),
    "metadata after samples": ("level{of=\"a\",to=\"c\"} +Inf\n", "level{of=\"a\",to=\"c\"} +Inf\n# HELP level x\n",
                               "after samples"),
    "a sample before everything": ("# TYPE build", "heat 1\n# TYPE build", "outside of its family"),
    "a counter without total": ("cost_dollars_total", "cost_dollars", "no sample of a counter"),
    "a gauge with total": ("level{of=\"a\",to=\"c\"}", "level_total{of=\"a\",to=\"c\"}", "no sample of a gauge"),
    "a gauge with the name of a counter's sample": (
        "# TYPE heat gauge\n# HELP heat", "# TYPE calls_total gauge\n# HELP calls_total", "ends like a sample"),
    "a counter's name ends like its sample": ("# TYPE heat gauge\n# HELP heat",
                                              "# TYPE heat_total counter\n# HELP heat_total", "ends like a sample"),
    "a counter below zero": ("calls_total{kind=\"ü\"} 0", "calls_total{kind=\"ü\"} -1", "below zero"),
    "a counter without end": ("calls_total{kind=\"ü\"} 0", "calls_total{kind=\"ü\"} +Inf", "without end"),
    "created before its total": ("calls_total{kind=\"ü\"} 0\ncalls_created{kind=\"ü\"} 1796022000\n",
                                 "calls_created{kind=\"ü\"} 1796022000\ncalls_total{kind=\"ü\"} 0\n", "a counter of"),
    "created without its total": ("calls_total{kind=\"ü\"} 0\n", "", "a counter of"),
    "two totals of the same labels": (
        "calls_total{kind=\"ü\"} 0\n", "calls_total{kind=\"ü\"} 0\ncalls_total{kind=\"ü\"} 0\n", "there twice"),
    "the same labels in another order": ("level{of=\"a\",to=\"c\"}", "level{to=\"b\",of=\"a\"}", "there twice"),
    "samples of a metric that are not together": (
        "calls_created{kind=\"ü\"} 1796022000\n",
        "calls_total{kind=\"z\"} 1\ncalls_created{kind=\"ü\"} 1796022000\n", "not together"),
    "labels that only some have": ("level{of=\"a\",to=\"c\"}", "level{of=\"a\"}", "not all metrics have"),
    "the same label twice": ("level{of=\"a\",to=\"c\"}", "level{of=\"a\",of=\"c\"}", "there twice"),
    "a label that is reserved": ("level{of=\"a\",to=\"c\"}", "level{of=\"a\",__name__=\"c\"}", "reserved"),
    "a label with a colon": ("level{of=\"a\",to=\"c\"}", "level{o:f=\"a\",to=\"c\"}", "no label"),
    "a label without quotes": ("level{of=\"a\",to=\"c\"}", "level{of=a,to=\"c\"}", "no label"),
    "a quote that is not escaped": ("level{of=\"a\",to=\"c\"}", "level{of=\"a\"\",to=\"c\"}", "no comma"),
    "an escape that there is not": ("level{of=\"a\",to=\"c\"}", "level{of=\"\\t\",to=\"c\"}", "the escape"),
    "an escape in help that there is not": ("None today", "None \\d today", "the escape"),
    "help that ends in an escape": ("None today.", "None today\\", "the escape"),
    "a comma too many": ("level{of=\"a\",to=\"c\"}", "level{of=\"a\",to=\"c\",}", "comma after"),
    "empty braces": ("cost_dollars_total", "cost_dollars_total{}", "without a label"),
    "a blank too many": ("cost_dollars_total ", "cost_dollars_total  ", "is no number"),
    "a tab": ("cost_dollars_total ", "cost_dollars_total\t", "no blank"),
    "no value": ("cost_dollars_total 12345678901.000000001", "cost_dollars_total", "no blank"),
    "a time beside the value": ("\"} +Inf\n", "\"} +Inf 1796022000\n", "is no number"),
    "a number of another base": ("-1.5e3", "0x10", "is no number"),
    "a number with separators": ("-1.5e3", "1_000", "is no number"),
    "not a number": ("-1.5e3", "NaN", "is no number"),
    "an info that is not one": ("build_info{version=\"0.1\"} 1", "build_info{version=\"0.1\"} 2", "not 1"),
    "bounds that do not ascend": ("le=\"1.0\"", "le=\"0.00001\"", "ascend"),
    "a bound like a count": ("le=\"1.0\"", "le=\"1\"", "without a point"),
    "no last bucket": ("wait_seconds_bucket{le=\"+Inf\"} 4\n", "", "no last bucket"),
    "buckets that are not cumulative": ("le=\"1.0\"} 1", "le=\"1.0\"} 0", "not cumulative"),
    "a bucket of parts": ("le=\"1.0\"} 1", "le=\"1.0\"} 1.5", "of parts"),
    "a count that is not the last bucket's": ("wait_seconds_count 4", "wait_seconds_count 5", "not the last"),
    "a histogram without count": ("wait_seconds_count 4\n", "", "no count"),
    "a histogram without sum": ("wait_seconds_sum 17.25\n", "", "no sum"),
    "a sum below zero": ("wait_seconds_sum 17.25", "wait_seconds_sum -1", "below zero"),
    "a bucket without a bound": ("wait_seconds_bucket{le=\"1.0\"}", "wait_seconds_bucket{lo=\"1.0\"}",
                                 "not together|without le|not all"),
    "le outside of a bucket": ("wait_seconds_count 4", "wait_seconds_count{le=\"1.0\"} 4", "outside of a bucket"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_refused(name):
    before, after, why = BAD[name]
    assert GOOD.count(before) == 1, "the good text no longer has this once"
    with pytest.raises(openmetrics.Wrong, match=why):
        openmetrics.parse(GOOD.replace(before, after).encode())


def test_what_is_not_utf8_is_refused():
    with pytest.raises(openmetrics.Wrong, match="no UTF-8"):
        openmetrics.parse(GOOD.encode("latin-1"))
