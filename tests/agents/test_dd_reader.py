"""dd's results in mutated texts: what is read stays what it was, or is trouble; and no text takes long."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import options as driver_options
from agents.readers import dd
from agents.readers import dd as reader
from agents.tools.dd import Options
from benchlab.testing.profiles import examples
from tests.agents.test_readers import CASES

NAMES = ("article-000", "terminal", "dirty-handwritten")
FOREIGN = [
    "",
    "  ",
    "$ ls -l",
    "-rw-r--r-- 1 root root 5 out",
    "sda 0.00 1.00",
    "1+1 = 2",
    "100 MB/s",
    "dd",
]
SPACES = [" ", "  ", "\t", "\u00a0", " \u2009"]
Figures = tuple[tuple[str, float | None], ...]


@functools.cache
def text(name: str) -> str:
    (path,) = Path(CASES / "dd").glob(f"{name}.txt")
    return path.read_text()


@functools.cache
def borders(name: str) -> frozenset[int]:
    """Lines before which another may stand: those that begin a result, unless they follow one at once."""
    found = reader.find_results(text(name), "")
    return frozenset({one.first for one in found} - {one.last + 1 for one in found})


def figures(of: str) -> list[Figures]:
    return [tuple((m.name, m.value) for m in one.metrics) for one in reader.find_results(of, "")]


@settings(max_examples=examples(3000), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_dirt_around_changes_nothing(seed: int) -> None:
    """White space, indentation, and foreign lines between results. A seed, since a draw for each line takes long."""
    random = Random(seed)
    name = random.choice(NAMES)
    indent, space = random.choice(["", "  ", "\t"]), random.choice(SPACES)
    lines: list[str] = []
    for number, line in enumerate(text(name).rstrip("\n").split("\n"), 1):
        if number in borders(name) and random.random() < 0.5:
            lines.append(random.choice(FOREIGN))
        lines.append(indent + line.replace(" ", space) + random.choice(["", " ", "\r"]))
    assert figures("\n".join(lines)) == figures(text(name))


@settings(max_examples=examples(4000), deadline=None)
@given(data=st.data())
def test_a_line_that_changed_harms_no_other_result(data: st.DataObject) -> None:
    """One line altered, dropped or doubled: results without it are as before, its own is right or gone."""
    name = data.draw(st.sampled_from(NAMES))
    lines = text(name).split("\n")
    before = reader.find_results(text(name), "")
    at = data.draw(st.integers(0, len(lines) - 1))
    how = data.draw(st.sampled_from(["drop", "cut", "digit", "twice"]))
    line = lines[at]
    if how == "drop":
        changed: list[str] = []
    elif how == "twice":
        changed = [line, line]
    elif how == "cut":
        changed = [line[: data.draw(st.integers(0, len(line)))]]
    else:
        spots = [i for i, c in enumerate(line) if c.isdigit()] or [0]
        spot = data.draw(st.sampled_from(spots))
        changed = [line[:spot] + data.draw(st.sampled_from("0123456789")) + line[spot + 1 :]]
    after = figures("\n".join([*lines[:at], *changed, *lines[at + 1 :]]))
    for one in before:
        if one.metrics and not one.first <= at + 1 <= one.last:
            assert tuple((m.name, m.value) for m in one.metrics) in after
    rates = {pair: None for one in before for m in one.metrics if (pair := (m.name, m.value))}
    for result in after:
        told = dict(result)
        if told and ("runtime", told["runtime"]) in rates:
            continue
        # A line whose bytes, seconds and rate agree is a result by itself, whatever is lost around it.
        if told and any(
            f"{told['bytes']:.0f} " in line and f"{told['runtime']:g}" in line for line in lines
        ):
            continue
        # A digit of the seconds changed: only as far as the printed rate is rounded.
        assert not told or how == "digit"


@settings(max_examples=examples(3000), deadline=None)
@given(data=st.data())
def test_a_cut_text_holds_no_new_figures(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    whole = text(name)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    # A cut inside a number leaves another number: cut between words.
    piece = " ".join(whole[start:end].partition(" ")[2].rpartition(" ")[:1])
    # dd's complaint may be what was cut off; the rest of a result is whole, or there is none.
    known = [set(result) for result in figures(whole)]
    # its last line alone is a part of it
    own = [set(result if len(result) == 3 else result[:-1]) for result in figures(piece) if result]
    assert all(any(result <= one for one in known) for result in own)


@pytest.mark.parametrize("name", NAMES)
def test_the_options_are_those_of_the_tool_or_verbatim(name: str) -> None:
    for one in reader.find_results(text(name), ""):
        typed = driver_options.accepted_values(Options, one.options)
        built = driver_options.build_options(Options, typed)
        assert isinstance(built, Options)
        others = {key: value for key, value in one.options.items() if key not in typed}
        assert all(f"{key}={value}" in one.command for key, value in others.items())


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("dd if=/dev/zero of=x bs=2x512 count=3", {"block_size": 1024, "count": 3}),
        ("# dd if=/dev/zero of=x bs=1kB oflag=direct,append", {"block_size": 1000}),
        ("time sudo dd if=/dev/zero of=x obs=4K ibs=8k;", {"obs": 4096, "ibs": 8192}),
        ("dd if=a of=b bs=8B", {}),  # 8 bytes to GNU, 4096 to FreeBSD
    ],
)
def test_sizes_as_people_write_them(line: str, options: dict[str, int]) -> None:
    found = dd.find_dd_command(line)
    assert found is not None
    assert options.items() <= found.options.items()


@pytest.mark.parametrize(
    "line", ["add if=1", "dd", "dd count=3", "class dd: if=3", "oflag=sync", "dd --version"]
)
def test_what_is_no_command(line: str) -> None:
    assert dd.find_dd_command(line) is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "unit",
    ["1+0 records in\n", "1 bytes copied, 1 s, 0.0 kB/s\n", "dd: x\n", "1+1 ab\n1+1 cd\n", "dd if=" * 9,
     "1+0 records in\n1+0 records out\n", " " * 99, "9" * 99, "dd a=b a=b\n", "/s+" * 30],
)  # fmt: skip
def test_long_texts_are_read_in_linear_time(unit: str) -> None:
    long = unit * (2_000_000 // len(unit))
    begun = time.thread_time()
    assert all(one.trouble for one in reader.find_results(long, ""))
    assert time.thread_time() - begun < 10


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("7", 7),
        ("7c", 7),
        ("7w", 14),
        ("7b", 7 * 512),
        *[(f"7{unit}", 7 << 10) for unit in ("k", "K", "KiB")],
        *[(f"7{unit}", 7000) for unit in ("kB", "KB")],
        *[(f"7{unit}", 7 << 20) for unit in ("m", "M", "MiB")],
        ("7MB", 7_000_000),
        *[(f"7{unit}", 7 << 30) for unit in ("g", "G", "GiB")],
        ("7GB", 7_000_000_000),
        *[(f"7{unit}", 7 << 40) for unit in ("T", "TiB")],
        ("7TB", 7_000_000_000_000),
        ("2x3x512", 3072),
        ("0", None),
        ("7q", None),
        ("x7", None),
        (f"{1 << 30}x{1 << 33}", None),
        (f"{1 << 30}x{1 << 32}", 1 << 62),
    ],
)
def test_sizes_as_dd_reads_them(text, size):
    assert dd.parse_size(text) == size
