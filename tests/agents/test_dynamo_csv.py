"""IOmeter's results .csv: what we write says what was measured, in IOmeter's own columns."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.dynamo import account, results_csv, transcript
from agents.dynamo.account import Measured
from agents.readers import iometer
from agents.tools import dynamo
from benchlab.testing.profiles import examples

CASES = Path(__file__).parents[1] / "cases"
BEGAN, ENDED = "2026-11-21 02:30:15:042", "2026-11-21 02:30:18:048"
TEXT = (CASES / "readers" / "iometer" / "two_steps.csv").read_text()


@functools.cache
def measured(name: str) -> Measured:
    (test,) = account.reconstruct_tests(
        transcript.parse_transcript((CASES / "tools" / "dynamo" / f"{name}.bin").read_bytes())
    )
    return test


def written(name: str) -> str:
    return results_csv.write_csv([results_csv.TimedTest(measured(name), BEGAN, ENDED)], "a, b\nc")


@pytest.mark.parametrize("name", ["full", "two_targets", "rc1"])
def test_the_figures_come_back(name: str) -> None:
    raw = (CASES / "tools" / "dynamo" / f"{name}.bin").read_bytes()
    parsed = dynamo.parse({"messages.bin": raw}, dynamo.Options())
    wanted = {m.name: m.value for m in parsed if not m.labels}
    (found,) = iometer.find_results(written(name).replace("\r\n", "\n"), "results.csv")
    assert not found.trouble
    got = {m.name: m.value for m in found.metrics if not m.labels}
    assert len(got) == 21
    for metric, value in got.items():
        assert value == pytest.approx(wanted[metric], rel=1e-4), metric
    bins = [m.value for m in found.metrics if m.name == "lat.bin" and "worker" not in m.labels]
    assert len(bins) == (0 if name == "rc1" else 21)
    assert not bins or sum(bins) == wanted["ios"]


def test_the_columns_are_iometers() -> None:
    lines = written("full").split("\r\n")
    assert lines[:7] == [
        "'Test Type,Test Description", "0,a  b c", "'Version", "1.1.0 ", "'Time Stamp", BEGAN,
        "'Access specifications",
    ]  # fmt: skip
    heading = lines[13].split(",")
    assert (len(heading), heading[0], heading[44], heading[-1]) == (
        80, "'Target Type", "Total Raw Run Time", " >= 10 s",
    )  # fmt: skip
    rows = {line.split(",")[0]: line.split(",") for line in lines[14:]}
    assert lines[8:12] == [
        "8 KiB; 50% Read; 50% random,0", "'size,% of size,% reads,% random,delay,burst,align,reply",
        "8192,100,50,50,0,1,0,0,", "'End access specifications",
    ]  # fmt: skip
    assert rows["ALL"][36:45] == [""] * 9
    assert [len(rows[kind]) for kind in ("ALL", "MANAGER", "PROCESSOR", "WORKER", "DISK")] == [
        80,
        80,
        59,
        80,
        80,
    ]
    assert [n for n, cell in enumerate(rows["PROCESSOR"][2:], start=3) if cell] == list(
        range(49, 56)
    )
    assert rows["DISK"][1] == "/srv/benchlab/disk1 [ext4]"
    assert rows["WORKER"][44] == "7803720768"  # 11955487619867 - 11947683899099 ticks
    assert rows["WORKER"][47] == "8"
    assert lines[-4:] == ["'Time Stamp", ENDED, "'End Test", ""]


def test_several_steps_in_one_file() -> None:
    both = [results_csv.TimedTest(measured(name), BEGAN, ENDED) for name in ("full", "two_targets")]
    text = results_csv.write_csv(both, test_type="CYCLE_OUTSTANDING_IOS").replace("\r\n", "\n")
    found = iometer.find_results(text, "")
    assert [one.outstanding for one in found] == [16, 6]
    assert found[0].last + 1 == found[1].first


@pytest.mark.parametrize("separator", ["\t", ";"])
def test_a_spreadsheets_separators(separator: str) -> None:
    text = written("full").replace("\r\n", "\n").replace("; ", " ").replace(",", separator)
    (found,) = iometer.find_results(text, "")
    assert not found.trouble
    assert found.metrics[0].value == 84807.794298


RIGHT = {
    (m.name, m.line): m.value
    for one in iometer.find_results(TEXT, "")
    for m in one.metrics
    if not m.labels
}
AROUND = ["", "prose, with commas", "ALLOW,me", "'comment", "$ cat results.csv", "1,2,3"]


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.sampled_from(AROUND), max_size=5), st.lists(st.sampled_from(AROUND), max_size=5))
def test_other_text_around_changes_nothing(before: list[str], after: list[str]) -> None:
    text = "\n".join([*before, *TEXT.rstrip("\n").split("\n"), *after])
    found = iometer.find_results(text, "")
    got = {(m.name, m.line - len(before)): m.value for one in found for m in one.metrics if not m.labels}  # fmt: skip
    assert got == RIGHT


@settings(max_examples=examples(600), deadline=None)
@given(st.data())
def test_a_changed_file_is_read_right_or_told(data: st.DataObject) -> None:
    """Whatever line or cell is lost, doubled or changed: the figures that are read are those of their line."""
    lines = TEXT.split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        how = data.draw(st.sampled_from(["drop", "double", "cut", "cell", "swap", "end"]))
        if how == "drop":
            lines[at] = "gone"
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        elif how == "cell":
            cells = lines[at].split(",")
            cells[data.draw(st.integers(0, len(cells) - 1))] = data.draw(
                st.sampled_from(["", "x", "1.2.3", "-5", "nan", "9" * 30, "a,b"])
            )
            lines[at] = ",".join(cells)
        elif how == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            lines = [*lines[: at + 1]]
    right = {value for (name, _), value in RIGHT.items() if name == "iops"}
    for one in iometer.find_results("\n".join(lines), ""):
        assert 1 <= one.first <= one.last <= len(lines)
        assert one.trouble == "" or not one.metrics
        for metric in one.metrics:
            if metric.name == "iops" and not metric.labels:
                assert metric.value in right


@pytest.mark.parametrize("name", ["two_steps.csv", "iometer_2006.csv", "article.txt"])
def test_each_result_is_found_again_in_its_own_lines(name: str) -> None:
    """An import keeps these only, and reads its figures from them."""
    text = (CASES / "readers" / "iometer" / name).read_text()
    for one in iometer.find_results(text, name):
        piece = "\n".join(text.split("\n")[one.first - 1 : one.last])
        (again,) = iometer.find_results(piece, name)
        assert not again.trouble
        assert again.metrics == one.metrics  # but for their lines
        assert (again.title, again.outstanding) == (one.title, one.outstanding)


@pytest.mark.parametrize(
    "text",
    [
        "IOPS | 1 | 2\nread IOPS | 1 | 2\nprose about fio\n",
        "| a | b |\n|---|---|\n| IOPS | x |",
        "IOmeter\nname | value\nIOPS | 5",
        "IOPS,Read IOPS\n1,2\n",
    ],
)
def test_other_tables_are_not_taken(text: str) -> None:
    assert iometer.find_results(text, "") == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("| 633 |", "| 1,633 |", "not a plain number"),
        ("Outstanding IOs | 1 | 2 |", "Outstanding IOs | 1 | 1 |", "same heading"),
        ("读IOPS | 318 | 318 |", "读IOPS | 318 |", "not a plain number"),
    ],
)
def test_tables_that_cannot_be_read_are_told(old: str, new: str, said: str) -> None:
    text = (CASES / "readers" / "iometer" / "article.txt").read_text()
    troubles = [one.trouble for one in iometer.find_results(text.replace(old, new), "")]
    assert troubles[0] == "" and said in troubles[1]
