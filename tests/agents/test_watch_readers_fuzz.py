"""Broken texts of iostat and zpool iostat, broken frames of every sampler: an error, or the same number as before.

Each example is a seed for a dozen broken texts: drawing them one by one would cost more than reading them.
"""

from __future__ import annotations

import functools
import math
import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contracts import Frame, ParseError
from agents.drivers import registry
from agents.jobs import job
from agents.readers import _iostat
from agents.texts.parsed_result import LineIndex, ParsedResult
from benchlab.testing.profiles import examples

CASES = Path(__file__).parents[1] / "cases"
READERS = ("iostat", "zpool_iostat")
EACH = 12  # broken texts an example
FOREIGN = ["$ ls", "and then I saw", "-- \t --", "\x00\xff", "<td>12</td>", "x" * 3000, "9" * 400]
CLOSED = "]}]}]}}"  # of iostat's JSON: its disks, reports, hosts
INSERTS = [b"NaN", b"-1", b"1e9", b"inf", b",", b".", b"%", b"K", b"[", b"/0", b" ", b"\n", b"\x00", b"9" * 400,
           b"-", b"=", b"dT:", b" capacity operations bandwidth\n"]  # fmt: skip
many = settings(max_examples=examples(300), deadline=None)
seeds = st.randoms(use_true_random=True)


@functools.cache
def texts(kind: str) -> list[str]:
    """Those that can be read: of what is broken already, a broken line may be left out.

    Figures that a terminal broke in two need their white space to be put together again.
    """
    paths = sorted((CASES / "readers" / kind).glob("*.txt"))
    return [
        path.read_text()
        for path in paths
        if "trouble" not in path.name and "terminal" not in path.name
    ]


def find(kind: str, text: str) -> list[ParsedResult]:
    return registry.all_readers()[kind].find_results(text, "")


@functools.cache
def plain(kind: str, text: str) -> list[float | None]:
    return [m.value for one in find(kind, text) for m in one.metrics]


def values(found: list[ParsedResult]) -> set[float]:
    return {v for one in found for s in one.series for v in s.values if not math.isnan(v)}


@functools.cache
def known(kind: str, text: str) -> set[float]:
    """Every number that the whole lines of the text can give, those of the reports that are left out too."""
    lines = text.split("\n")
    cut = [lines[at:] for at in range(len(lines))] + [lines[:at] for at in range(len(lines))]
    # JSON's last report, broken off by Ctrl-C, is left out, and a swap puts its lines into a whole one.
    cut += [[*lines[:at], CLOSED] for at in range(len(lines))]
    # A row that a swap put first under its headings shows no longer that it is a group's sum.
    heads = [line for line in lines if line.startswith("Device")]
    cut += [[head, line] for head in heads[:1] for line in lines]
    return set().union(*(values(find(kind, "\n".join(some))) for some in [lines, *cut]))


@pytest.mark.parametrize("kind", READERS)
@many
@given(dice=seeds)
def test_what_stands_around_changes_no_number(kind: str, dice: random.Random) -> None:
    for _ in range(EACH):
        text = dice.choice(texts(kind))
        around = [dice.choices(FOREIGN, k=dice.randrange(4)) for _ in range(2)]
        lines = [*around[0], "", *text.rstrip("\n").split("\n"), "", *around[1]]
        if kind == "iostat":  # zpool's blanks say what stands below what
            prefix = dice.choice(["", "    ", "\xa0\xa0"])
            blank = dice.choice(["  ", "\t"])
            lines = [prefix + blank.join(line.split()) for line in lines]
        changed = find(kind, "\n".join(lines))
        assert [m.value for one in changed for m in one.metrics] == plain(kind, text)


@pytest.mark.parametrize("kind", READERS)
@many
@given(dice=seeds)
def test_lines_dropped_doubled_swapped_or_cut_give_no_new_number(
    kind: str, dice: random.Random
) -> None:
    for _ in range(EACH):
        text = dice.choice(texts(kind))
        lines = text.split("\n")
        for _ in range(dice.randint(1, 4)):
            dice.choice([drop, double, swap, cut])(lines, dice)
        assert values(find(kind, "\n".join(lines))) <= known(kind, text)


def drop(lines: list[str], dice: random.Random) -> None:
    at = dice.randrange(len(lines) + 1)
    del lines[at : at + 1]


def double(lines: list[str], dice: random.Random) -> None:
    at = dice.randrange(len(lines) or 1)
    lines[at:at] = lines[at : at + 1]


def swap(lines: list[str], dice: random.Random) -> None:
    if lines:
        a, b = dice.randrange(len(lines)), dice.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]


def cut(lines: list[str], dice: random.Random) -> None:
    del lines[dice.randrange(len(lines) + 1) :]


def broken(raw: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.randint(1, 3)):
        start = dice.randint(0, len(raw))
        end = dice.randint(start, min(len(raw), start + 80))
        new = dice.choice(INSERTS)
        middle = dice.choice([b"", new + raw[start:end], new, raw[start:end] * 2])
        raw = raw[:start] + middle + raw[end:]
    return raw


@pytest.mark.parametrize("kind", READERS)
@many
@given(dice=seeds)
def test_broken_text_is_an_error_or_makes_sense(kind: str, dice: random.Random) -> None:
    for _ in range(EACH):
        raw = broken(dice.choice(texts(kind)).encode(), dice).decode(errors="replace")
        for one in find(kind, raw):
            assert one.trouble or one.metrics
            assert 1 <= one.first <= one.last <= raw.count("\n") + 1
            for m in one.metrics:
                assert one.first <= m.line <= one.last
                assert m.value is None or (math.isfinite(m.value) and m.value >= 0)


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=examples(200), deadline=None)
@given(noise=st.text(max_size=300))
def test_noise(kind: str, noise: str) -> None:
    assert find(kind, noise) == []


@functools.cache
def frames_of(kind: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CASES / "samplers" / kind).glob("*.txt"))]


@pytest.mark.parametrize("kind", registry.all_samplers())
@settings(max_examples=examples(100), deadline=None)
@given(dice=seeds)
def test_broken_frames(kind: str, dice: random.Random) -> None:
    for _ in range(EACH):
        try:
            found = registry.all_samplers()[kind].frames_to_series(
                job.frames(broken(dice.choice(frames_of(kind)), dice))
            )
        except ParseError:
            continue
        for one in found:
            assert len(one.times) == len(one.values)
            assert all(math.isnan(v) or (math.isfinite(v) and v >= 0) for v in one.values), one


def test_an_array_of_more_disks_than_places_is_no_number():
    """Found by a drawn example: it was told to lack fewer disks than none."""
    said = "md1 : active raid1 sdc[1] sdb[0]\n      511936 blocks super 1.2 [1/20] [UU]\n"
    with pytest.raises(ParseError, match="more disks than the array has places"):
        registry.all_samplers()["mdstat"].frames_to_series([Frame(1.0, {"/proc/mdstat": said})])


@pytest.mark.parametrize("kind", registry.all_samplers())
def test_a_blank_line_is_no_crash(kind: str) -> None:
    sampler = registry.all_samplers()[kind]
    names = [*sampler.FILES, *(watch.file_key for watch in sampler.WATCHES)]
    for said in ("", "\n", " \n\n", ":\n", "0\n"):
        frames = [Frame(at, dict.fromkeys(names, said)) for at in (1.0, 2.0)]
        with suppress(ParseError):
            found = sampler.frames_to_series(frames)
            assert all(math.isnan(value) for one in found for value in one.values), found


DOCUMENT = (CASES / "readers" / "iostat" / "sysstat-12.6.1-json.txt").read_text()
PIECES = ["", "-1", ",", ".", "\n", "{", "}", "]", "[", '"disk_device"', '"sysstat": {', "9" * 30, "null", "true",
          '"statistics": [', "\x00"]  # fmt: skip


@many
@given(dice=seeds)
def test_a_broken_document_of_iostats_is_told_and_found_again(dice: random.Random) -> None:
    for _ in range(EACH):
        text = DOCUMENT
        for _ in range(dice.randint(1, 4)):
            start = dice.randint(0, len(text))
            end = dice.randint(start, min(len(text), start + 60))
            text = text[:start] + dice.choice([*PIECES, text[start:end] * 2]) + text[end:]
        lines = text.split("\n")
        for one in find("iostat", text):
            assert 1 <= one.first <= one.last <= len(lines)
            if not one.trouble:
                (again,) = find("iostat", one.own_text(LineIndex(text)))
                assert [m.value for m in again.metrics] == [m.value for m in one.metrics]


@pytest.mark.parametrize("word", ["23s", "23k", "1.5G", "23B"])
def test_a_size_is_no_share_of_the_cpu(word):
    with pytest.raises(ParseError, match="not the figures of avg-cpu"):
        _iostat.parse_cpu(["1.00", "0.00", "0.50", "0.00", "0.00", word], 3)
