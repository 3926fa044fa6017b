"""A person's own command: the real sh runs it, the guard sees what it names, and its figures are never half read."""

from __future__ import annotations

import math
import subprocess
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contracts import Job, OptionsError, ParseError, Target
from agents.safety.guard import job_refusals
from agents.texts import extraction
from agents.tools import command
from benchlab.testing.profiles import examples
from tests.agents.made_up import disk, host, spare


def try_extractions(
    sample: str, lines: list[str], seconds: float = 5.0
) -> list[extraction.ExtractionOutcome]:
    """Outcomes of all lines on `sample` as the program's standard output."""
    texts = {"stdout": extraction.decode_output(sample.encode())}
    tried: list[extraction.ExtractionOutcome] = []
    for number, line in enumerate(lines, 1):
        earlier = {row.name for row in tried if row.extraction != line}
        tried += extraction.try_line(number, line, texts, seconds, earlier)
    return tried


RAW = Target("bl1", volume="/dev/mapper/bl1-data", size=1 << 30)


def start(job: Job, spool: Path) -> subprocess.CompletedProcess[str]:
    spool.mkdir()
    for name, content in job.inputs.items():
        (spool / name).write_bytes(content)
    return subprocess.run(
        job.argv, cwd=spool, env={"PATH": "/usr/bin:/bin", **job.env}, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_example_runs_and_is_read(tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    options = command.Options()
    done = start(
        command.build_job(options, Target("bl1", mount=str(tmp_path / "mnt"))), tmp_path / "s"
    )
    assert done.returncode == 0, done.stderr
    (metric,) = command.parse({"stdout": done.stdout.encode()}, options)
    assert metric.name == "runtime" and metric.value and metric.line == 3
    assert not list((tmp_path / "mnt").iterdir())


def test_the_example_touches_nothing_without_a_file_system(tmp_path: Path) -> None:
    done = start(command.build_job(command.Options(), RAW), tmp_path / "spool")
    assert done.returncode and "this needs a file system" in done.stderr


def test_the_layout_comes_as_the_environment(tmp_path: Path) -> None:
    options = command.Options(
        command="env | grep ^BENCHLAB_ | sort", outstanding=8, parameter="a b"
    )
    assert start(command.build_job(options, RAW), tmp_path / "spool").stdout.splitlines() == [
        "BENCHLAB_OUTSTANDING=8",
        "BENCHLAB_PARAMETER=a b",
        "BENCHLAB_SIZE=1073741824",
        "BENCHLAB_VOLUME=/dev/mapper/bl1-data",
    ]


@pytest.mark.parametrize(("script", "code"), [("echo hi", 0), ("if true; then", 2)])
def test_the_precheck_reads_and_runs_nothing(script: str, code: int, tmp_path: Path) -> None:
    check = command.build_precheck(command.Options(command=f"touch ran\n{script}"), RAW)
    assert check is not None
    assert start(check, tmp_path / "spool").returncode == code
    assert not (tmp_path / "spool" / "ran").exists()


def refused(script: str, target: Target) -> list[str]:
    job = command.build_job(command.Options(command=script), target)
    return job_refusals(job.argv, job.inputs, target, host(disk("sdb")), spare(disk("sdb")), "bl1")


MOUNTED = Target("bl1", mount="/mnt/bl1")


@pytest.mark.parametrize(
    "script",
    [
        'dd if=/dev/zero of="$BENCHLAB_MOUNT/x" count=1',
        "dd if=/dev/zero of=${BENCHLAB_MOUNT:?no file system}/x count=1",
        "fio --directory=$BENCHLAB_MOUNT --name=a",
        command.EXAMPLE,
    ],
)
def test_a_script_may_name_the_layout(script: str) -> None:
    assert refused(script, MOUNTED) == []


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("dd if=/dev/zero of=$BENCHLAB_MOUNTS/x", "write the path out in full"),
        ("dd if=/dev/zero of=$HOME/x", "write the path out in full"),
        ("BENCHLAB_MOUNT=/etc; dd if=/dev/zero of=$BENCHLAB_MOUNT/x", "write the path out"),
        ("dd if=/dev/zero of=${BENCHLAB_VOLUME}/x", "is outside /mnt/bl1"),
        ("dd if=/dev/zero of=$BENCHLAB_MOUNT/../x", "write the path out in full"),
        ("dd if=/dev/zero of=/dev/sdb", "the command names sdb"),
        ("mkfs.xfs /dev/sdzz", "the command names /dev/sdzz"),
    ],
)
def test_the_guard_sees_what_else_it_names(script: str, says: str) -> None:
    assert any(says in reason for reason in refused(script, MOUNTED)), refused(script, MOUNTED)


@pytest.mark.parametrize("pattern", [r"(a|aa)+$", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(.*,)*(.*,)*x"])
def test_a_catastrophic_pattern_ends(pattern: str) -> None:
    sample = ("a" * 60 + "b,") * 40
    begun = time.thread_time()
    (row,) = try_extractions(sample, [f"x [1] = regex: {pattern}"], seconds=0.2)
    assert row.trouble
    assert time.thread_time() - begun < 8


def test_a_deep_or_huge_document_is_trouble_at_most() -> None:
    for sample in ("[" * 100_000, '{"a":' * 900 + "1" + "}" * 900, "9" * 100_000, '{"a": 1e999}'):
        (row,) = try_extractions(sample, ["x [1] = json: $.a"])
        assert row.trouble


def test_of_two_members_alike_the_last_counts_and_names_its_line() -> None:
    sample = '{"a": 1,\n"b": [1, {"x": "}"}],\n"a": 2}'
    (row,) = try_extractions(sample, ["x [1] = json: $.a"])
    assert (row.value, row.line) == (2.0, 3)


@pytest.mark.parametrize(
    ("sample", "pattern"),
    [
        ("IOPS=12.3k", "IOPS=([0-9.]+)"),
        ("IOPS=1234", "IOPS=.*([0-9]+)"),
        ("took 1.5 s", r"([0-9]+)\.5"),
        ("x = 1,234", "([0-9]+)"),
        ("x = -5", "x = -([0-9]+)"),
        ("lat 18usec", "lat ([0-9]+)"),
        ("rate 4.37 k iops", "rate ([0-9.]+)"),
        ("rate 17.1 MiB/s", "rate ([0-9.]+)"),
        ("rate 3 K", "rate ([0-9.]+)"),
        ("lat 228.7 us", "lat ([0-9.]+)"),
        ("1e-05 s", "^([0-9.]+)"),
        ("rate 1e400 B", "rate (.*) B"),
        ("rate - 3", "rate (- 3)"),
        ("rate ٣", r"rate (\d+)"),
    ],
)
def test_half_a_figure_is_refused(sample: str, pattern: str) -> None:
    (row,) = try_extractions(sample, [f"x [1] = regex: {pattern}"])
    assert row.trouble and row.value is None


@pytest.mark.parametrize(
    ("sample", "pattern", "value"),
    [
        ("rate 4.37 k iops", r"rate ([0-9.]+) k", 4.37),
        ("IOPS=12, BW=3", "IOPS=([0-9]+)", 12.0),
        ("took 12. Done", "took ([0-9.]+)", 12.0),
        ("a-5 b", "a-([0-9])", 5.0),
        ("9 requests", "([0-9]+)", 9.0),
        ("3 Keys", "([0-9]+)", 3.0),
    ],
)
def test_a_whole_figure_is_read(sample: str, pattern: str, value: float) -> None:
    (row,) = try_extractions(sample, [f"x [1] = regex: {pattern}"])
    assert (row.trouble, row.value) == ("", value)


LINES = [
    "iops [op/s] = regex: ^ *iops *: *([0-9.]+)$",
    "bandwidth [B/s] x 1024 = regex: ^ *bw *: *([0-9.]+) KiB/s$",
    "lat.mean [s] x 0.001 = regex first: ([0-9.]+|n/a) ms",
]
FIGURES = {"iops": 1234.5, "bandwidth": 99.0 * 1024, "lat.mean": 0.00025}
SAMPLE = ["tool 1.0", "iops : 1234.5", "bw: 99 KiB/s", "mean 0.25 ms", "p99 0.5 ms", "done"]


@settings(max_examples=examples(8000), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_mutated_outputs_are_right_or_refused(seed: int) -> None:
    """Lines dropped, doubled, swapped, dirt between, white space, a letter after a figure, a cut anywhere."""
    random = Random(seed)
    lines = list(SAMPLE)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(lines))
        how = random.choice(["drop", "twice", "swap", "dirt", "space", "suffix", "comma", "end"])
        if how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "twice":
            lines.insert(at, lines[at])
        elif how == "swap":
            # the first of two latencies is the one that counts, so they keep their order
            lines[0], lines[-1] = lines[-1], lines[0]
        elif how == "dirt":
            lines.insert(at, random.choice(["", "# iops", "99", "ms", "<td>", "\x00", "é" * 9]))
        elif how == "space":
            lines[at] = lines[at].replace(" ", "  ")
        elif how == "suffix":
            lines[at] += random.choice(["k", "M", "0,5", "%"])
        elif how == "comma":
            lines[at] = lines[at].replace(".", ",")
        elif lines[at]:
            lines[at] = lines[at][: random.randrange(len(lines[at]))].rstrip("0123456789.")
    for row in try_extractions("\n".join(lines), LINES):
        known = {FIGURES[row.name], 0.0005} if row.name == "lat.mean" else {FIGURES[row.name]}
        assert row.trouble or any(math.isclose(row.value or 0.0, one) for one in known), row


@settings(max_examples=examples(800), deadline=None)
@given(st.text(max_size=60), st.text(max_size=80))
def test_any_line_on_any_text_raises_nothing(line: str, sample: str) -> None:
    for form in (
        line,
        f"a [1] = regex: {line}",
        f"a [1] = json: {line}",
        f"a [1] = json: $.{line}",
    ):
        try_extractions(sample, [form], seconds=0.2)


@pytest.mark.parametrize(
    "line", ["a [1] = regex: (", "a [1] = regex: (?P<x>", "A [1] = regex: (1)"]
)
def test_what_is_no_extraction_is_said(line: str) -> None:
    with pytest.raises(OptionsError, match="extract: line 1"):
        extraction.parse_extractions([line])


def test_a_missing_file_and_no_extraction_are_errors() -> None:
    options = command.Options(outputs=("o.json",), extract=("a [1] = o.json json: $.a",))
    with pytest.raises(ParseError, match=r"a reads o\.json, which is missing"):
        command.parse({"stdout": b"1"}, options)
    with pytest.raises(ParseError, match="no figure is read"):
        command.parse({"stdout": b"1"}, command.Options(extract=()))


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [('{"a": null}', "null", 1), ('{\n"a": 1.5}', "1.5", 2), ('{"a": "x"}', "x", 1)],
)
def test_a_value_of_json_is_named_as_it_stands_there(text: str, said: str, line: int) -> None:
    assert extraction.locate_values("json", "$.a", text, "first", 1.0) == [
        extraction.Value(said, line, "$['a']")
    ]


@pytest.mark.parametrize(
    ("value", "kind"), [("true", "true or false"), ("{}", "an object"), ("[]", "a list")]
)
def test_what_is_no_number_in_json_is_named(value: str, kind: str) -> None:
    with pytest.raises(extraction.ValueNotFound, match=kind):
        extraction.locate_values("json", "$.a", f'{{"a": {value}}}', "first", 1.0)
