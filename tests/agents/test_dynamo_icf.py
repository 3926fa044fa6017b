"""IOmeter's .icf files, read into workloads and written again."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import options as driver_options
from agents.contracts import ParseError
from agents.dynamo import icf
from agents.dynamo.icf_format import Config, Cycle, Manager, Worker
from agents.dynamo.messages import AccessLine, AccessSpec
from agents.tools import dynamo
from benchlab.testing.profiles import examples
from tests.agents.dynamo_vectors import CASES

# Hand-written after PROTOCOL section 11; the columns as files of IOmeter 2006 and 1.1.0 have them.
FILE = (CASES / "article002.icf").read_text()


def test_article_002_with_the_size_that_its_author_meant() -> None:
    (one,) = icf.read_workloads(FILE)
    assert one.name == "8 KiB; 50% Read; 50% random"
    assert one.options == {
        "block_size": 8192, "read_percent": 50, "random_percent": 50, "outstanding_ios": 1, "workers": 1,
        "targets": 1, "ramp_s": 30, "runtime_s": 600, "size": 10 << 30, "data_pattern": 0,
    }  # fmt: skip
    assert one.sweep == {"outstanding_ios": [1, 2, 4, 8, 16]}
    assert (one.notes, one.trouble) == ((), "")


@pytest.mark.parametrize("one", icf.read_workloads(FILE), ids=lambda one: one.name)
def test_the_options_are_those_of_the_tool(one: icf.Workload) -> None:
    assert driver_options.build_options(dynamo.Options, one.options)


def test_where_nothing_is_assigned_all_specifications_count() -> None:
    found = icf.read_workloads(FILE.replace("\t8 KiB; 50% Read; 50% random\n'End", "'End"))
    assert [one.name for one in found] == ["8 KiB; 50% Read; 50% random", "mixed"]
    assert found[1].options["access"] == ("4096,50,100,100,0,1,4096,0", "65536,50,0,0,0,1,4096,0")


@pytest.mark.parametrize(
    "dirty",
    [
        FILE.replace("\n", "\r\n"),
        "\ufeff" + FILE,
        FILE.replace("\t", " "),
        FILE.replace("\t", "    "),
        FILE.replace("Version 1.1.0", "Version 2006.07.27"),
        FILE.partition("\n")[2],
        FILE.replace("'TEST SETUP", "'Test Setup").replace("'END", "'end"),
        "\n".join(" ".join(line.split()) for line in FILE.split("\n")),
    ],
)
def test_the_same_whatever_the_white_space_and_version(dirty: str) -> None:
    assert icf.looks_like_icf(dirty)
    assert icf.read_workloads(dirty) == icf.read_workloads(FILE)


def test_an_older_file_has_fewer_columns() -> None:
    older = FILE.replace(",use fixed seed,fixed seed value", "").replace(
        "1,DISABLED,1,DISABLED,0", "16,DISABLED,1"
    )
    older = older.replace(",Data pattern", "").replace("2621440,0,0", "2048,0")
    (one,) = icf.read_workloads(older)
    assert (one.options["outstanding_ios"], one.options["size"]) == (16, 8 << 20)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("2621440,0,0", "0,0,0", "size 0"),
        ("2621440,0,0", "2621440,0,2", "broken in dynamo"),
        ("2621440,0,0", "2621440,8,0", "starting sector 8"),
        (
            "1,DISABLED,1,DISABLED,0",
            "1,ENABLED,100,DISABLED,0",
            "which opens each target again after 100",
        ),
        ("1,DISABLED,1,DISABLED,0", "1,DISABLED,1,ENABLED,4711", "fixed seed 4711"),
        ("CYCLE_OUTSTANDING_IOS", "INCREMENT_TARGETS_SERIAL", "INCREMENT_TARGETS_SERIAL is not"),
        ("\t0          10         0", "\t0          0         0", "run time 0"),
    ],
)
def test_what_is_not_carried_over_is_said(old: str, new: str, said: str) -> None:
    (one,) = icf.read_workloads(FILE.replace(old, new))
    assert said in " ".join(one.notes)


def test_a_fixed_seed_is_taken_over_and_written_again() -> None:
    greatest = 2**64 - 1
    (one,) = icf.read_workloads(
        FILE.replace("1,DISABLED,1,DISABLED,0", f"1,DISABLED,1,ENABLED,{greatest}")
    )
    assert one.options["seed"] == greatest
    assert driver_options.build_options(dynamo.Options, one.options)
    written = icf.write_icf(icf.build_config([one]))
    assert f"\t1,DISABLED,1,ENABLED,{greatest}\r\n" in written
    assert icf.read_workloads(written)[0].options["seed"] == greatest


def test_what_an_old_file_does_not_say_of_seed_and_connections_is_off() -> None:
    for columns in ("16", "16,DISABLED,1"):
        (one,) = icf.read_workloads(FILE.replace("1,DISABLED,1,DISABLED,0", columns))
        assert "seed" not in one.options and one.notes == ()


def worker(name: str, *targets: str) -> Worker:
    return Worker(name, sectors=8, specs=("a",), targets=targets)


@pytest.mark.parametrize(
    ("workers", "own", "said"),
    [
        ((worker("1", "/a"), worker("2", "/b")), True, ""),
        ((worker("1", "/a"), worker("2", "/a")), False, ""),
        ((worker("1", "/a", "/b"), worker("2", "/b", "/c")), False, "share some of their targets"),
        ((worker("1", "/a"), worker("2", "/b", "/c")), True, "different numbers of targets"),
    ],
)
def test_whose_targets_they_are(workers: tuple[Worker, ...], own: bool, said: str) -> None:
    spec = AccessSpec("a", (AccessLine(4096, 100, 50, 50, 0, 1, 4096),))
    config = Config(run_s=60, specs=(spec,), managers=(Manager("m", "", workers),))
    (one,) = icf.read_workloads(icf.write_icf(config))
    assert one.options.get("own_targets", False) is own
    assert said in " ".join(one.notes) and bool(said) == bool(one.notes)


def configuration(*workers: Worker, **settings: Any) -> list[icf.Workload]:
    """What becomes of a file with these workers."""
    accesses = tuple(
        AccessSpec(name, (AccessLine(4096, 100, 50, 50, 0, 1, 4096),)) for name in "ab"
    )
    managers = (Manager("m", "", workers),)
    return icf.read_workloads(
        icf.write_icf(Config(run_s=60, specs=accesses, managers=managers, **settings))
    )


def running(name: str, *accesses: str) -> Worker:
    return Worker(name, sectors=8, specs=accesses, targets=("/a",))


def test_workers_that_run_different_specifications_at_once_are_refused() -> None:
    """They became a test of each specification on all workers, which IOmeter never runs."""
    found = configuration(running("reader", "a"), running("writer", "b"))
    assert [one.name for one in found] == ["a", "b"]
    for one in found:
        assert "in test 1 of the file the workers run different access" in one.trouble
        assert "reader: a; writer: b" in one.trouble


def test_each_test_runs_on_the_workers_that_iometer_would_use() -> None:
    found = configuration(running("1", "a", "b"), running("2", "Idle", "b"), running("3", "a"))
    assert [(one.name, one.options["workers"], one.trouble) for one in found] == [
        ("a", 2, ""),
        ("b", 2, ""),
    ]


@pytest.mark.parametrize(
    ("cycle", "values"),
    [
        (Cycle(1, 1, 1), [1, 2, 3, 4]),
        (Cycle(1, 1, 2), [1, 3, 4]),
        (Cycle(2, 2, 3), [2, 4]),
        (Cycle(6, 6, 1), [4]),
        (Cycle(1, 1, 0), [1]),
        (Cycle(1, 1, 1, "EXPONENTIAL"), [1, 2, 3, 4]),
        (Cycle(1, 1, 2, "EXPONENTIAL"), [1, 2, 4]),
        (Cycle(1, 1, 3, "EXPONENTIAL"), [1, 3, 4]),
    ],
)
def test_workers_and_targets_cycle_as_in_iometer(cycle: Cycle, values: list[int]) -> None:
    """Of four (GalileoView::CycleWorkers, CycleTargets); a step beyond the last runs all of them."""
    workers = [running(str(number), "a") for number in range(4)]
    (one,) = configuration(*workers, test_type="CYCLE_WORKERS", workers=cycle)
    assert (one.sweep, one.trouble) == ({"workers": values}, "")
    worker = replace(workers[0], targets=("/a", "/b", "/c", "/d"))
    (one,) = configuration(worker, test_type="CYCLE_TARGETS", disks=cycle)
    assert (one.sweep, one.trouble) == ({"targets": values}, "")


@pytest.mark.parametrize(
    ("cycle", "values", "trouble"),
    [
        (Cycle(1, 4, 1, "EXPONENTIAL"), [1, 2, 3, 4], ""),
        (Cycle(1, 4, 0), [1], "step 0 never reaches the end 4"),
        (Cycle(0, 4, 1), [], "it starts at 0"),
        (Cycle(1, 256, 1), list(range(1, 65)), "more than 64 values"),
    ],
)
def test_outstanding_ios_cycle_as_in_iometer(cycle: Cycle, values: list[int], trouble: str) -> None:
    (one,) = configuration(running("1", "a"), test_type="CYCLE_OUTSTANDING_IOS", queue=cycle)
    assert one.sweep.get("outstanding_ios", []) == values
    assert trouble in one.trouble and bool(trouble) == bool(one.trouble)


def test_the_test_description_is_taken_over_and_written_again() -> None:
    (one,) = configuration(running("1", "a"), description="Nightly, array 3")
    assert one.description == "Nightly, array 3"
    assert icf.parse_icf(icf.write_icf(icf.build_config([one]))).description == "Nightly, array 3"


def test_a_worker_for_each_cpu_is_no_single_worker() -> None:
    accesses = (AccessSpec("a", (AccessLine(4096, 100, 50, 50, 0, 1, 4096),)),)
    config = Config(run_s=60, disk_workers=None, specs=accesses)
    written = icf.write_icf(config)
    assert icf.parse_icf(written) == config and "\tNUMBER_OF_CPUS\r\n" in written
    assert "one worker for each CPU" in " ".join(icf.read_workloads(written)[0].notes)
    assert icf.parse_icf(icf.write_icf(replace(config, disk_workers=0))).disk_workers == 0


def test_what_dynamo_cannot_run_is_in_trouble() -> None:
    (one,) = icf.read_workloads(FILE.replace("8192,100,50,50,0,", "8192,100,50,50,5,"))
    assert "hang" in one.trouble
    (one,) = icf.read_workloads(FILE.replace("8192,100,50,50,0,", "8192,90,50,50,0,"))
    assert "90 %, not 100 %" in one.trouble


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("8192,100,50,50,0,1,8192,0", "8192,100,fifty,50,0,1,8192,0", 36, "size,% of size"),
        ("1,DISABLED,1,DISABLED,0", "1,DISABLED,1,ENABLED,x", 54, "use fixed seed"),
        ("1,DISABLED,1,DISABLED,0", "1,PERHAPS,1,DISABLED,0", 54, "connection rate"),
        ("\t0          10         0", "\tten minutes", 7, "hours minutes seconds"),
        ("EXPONENTIAL\n'Test", "TWICE\n'Test", 24, "start end step"),
        ("8192,100,50,50,0,1,8192,0", "8192,x,100,50,50,0,1,8192,0", 36, "size,% of size"),
        ("'END manager list", "", 0, "'manager list' has no end"),
        ("\t8192,100,50,50,0,1,8192,0\n", "", 0, "has no lines"),
        ("\t8 KiB; 50% Read; 50% random\n'End", "\tother\n'End", 0, "'other' is assigned"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(
    old: str, new: str, line: int, said: str
) -> None:
    with pytest.raises(ParseError, match=said) as caught:
        icf.read_workloads(FILE.replace(old, new))
    assert caught.value.line == line


@pytest.mark.parametrize(
    "text", ["", "\n", "Version 1.1.0", "{}", "Version 5.1 of the 'TEST SETUP", "a,b\n1,2\n"]
)
def test_other_texts_are_none(text: str) -> None:
    assert not icf.looks_like_icf(text)
    with pytest.raises(ParseError):
        icf.read_workloads(text)


def test_what_is_written_says_the_same_again() -> None:
    config = icf.parse_icf(FILE)
    written = icf.write_icf(config)
    assert icf.parse_icf(written) == config
    assert icf.read_workloads(written) == icf.read_workloads(FILE)
    assert written.count("\r\n") == written.count("\n")
    assert written.startswith("Version 1.1.0 \r\n'TEST SETUP =====")
    assert written.endswith("'END manager list\r\nVersion 1.1.0 \r\n")
    assert "\t8192,100,50,50,0,1,8192,0\r\n" in written


def test_workloads_become_a_file_and_come_back() -> None:
    (one,) = icf.read_workloads(FILE)
    (again,) = icf.read_workloads(icf.write_icf(icf.build_config([one])))
    assert (again.options, again.sweep, again.name) == (one.options, one.sweep, one.name)
    linear = icf.Workload("x", one.options, {"outstanding_ios": [4, 8, 12, 16]})
    (again,) = icf.read_workloads(icf.write_icf(icf.build_config([linear])))
    assert again.sweep == {"outstanding_ios": [4, 8, 12, 16]}
    with pytest.raises(ParseError, match="only by a fixed increment or factor"):
        icf.build_config([icf.Workload("x", one.options, {"outstanding_ios": [1, 5, 6]})])


def test_sectors_are_those_that_dynamo_counts_in() -> None:
    """Of a file system that Linux's dynamo reports: its blocks. Of a Windows volume or a disk: 512 bytes."""
    (one,) = icf.read_workloads(FILE)
    windows = FILE.replace(icf.parse_icf(FILE).managers[0].workers[0].targets[0], "D: New Volume")
    assert (
        one.options["size"] == 8 * icf.read_workloads(windows)[0].options["size"] == 2621440 * 4096
    )
    (worker,) = icf.build_config([one]).managers[0].workers
    assert worker.sectors * 4096 == one.options["size"]


@pytest.mark.parametrize(
    ("options", "sweep", "said"),
    [
        ({}, {"block_size": [4096, 8192]}, "a sweep over block_size"),
        ({"targets": 2}, {}, "several targets"),
        ({"workers": 2, "own_targets": True}, {}, "several targets"),
        ({"size": 0}, {}, "size 0"),
    ],
)
def test_what_a_file_cannot_say_is_refused(options, sweep, said) -> None:
    (one,) = icf.read_workloads(FILE)
    with pytest.raises(ParseError, match=said):
        icf.build_config([icf.Workload("x", one.options | options, sweep)])


WORDS = st.text(st.sampled_from("abc XYZ;%0123[]/."), min_size=1, max_size=20).map(str.strip).filter(bool)  # fmt: skip
COUNTS = st.integers(0, 10**9)
LINES = st.builds(AccessLine, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
SPECS = st.builds(AccessSpec, WORDS, st.lists(LINES, min_size=1, max_size=4).map(tuple), st.integers(0, 3))  # fmt: skip
NAMES = st.lists(WORDS, max_size=3).map(tuple)
WORKERS = st.builds(
    Worker, WORDS, st.booleans(), COUNTS, COUNTS, COUNTS, COUNTS, NAMES, NAMES,
    transactions=COUNTS, seed=st.none() | st.integers(0, 2**64 - 1),
)  # fmt: skip
MANAGERS = st.builds(Manager, WORDS, WORDS, st.lists(WORKERS, max_size=3).map(tuple))
CONFIGS = st.builds(
    Config, WORDS, COUNTS, COUNTS, st.none() | st.integers(0, 64), st.sampled_from(["NORMAL", "CYCLE_WORKERS"]),
    st.builds(lambda n, s: Cycle(n, n, s), COUNTS, COUNTS), st.builds(lambda n, s: Cycle(n, n, s), COUNTS, COUNTS),
    st.builds(Cycle, COUNTS, COUNTS, COUNTS, st.sampled_from(["LINEAR", "EXPONENTIAL"])),
    st.lists(SPECS, max_size=3).map(tuple), st.lists(MANAGERS, max_size=2).map(tuple),
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(CONFIGS)
def test_any_configuration_comes_back(config: Config) -> None:
    assert icf.parse_icf(icf.write_icf(config)) == config


@settings(max_examples=examples(500), deadline=None)
@given(st.data())
def test_broken_files_are_read_or_refused(data: st.DataObject) -> None:
    lines = FILE.split("\n")
    for _ in range(data.draw(st.integers(1, 3)) if lines else 0):
        at = data.draw(st.integers(0, len(lines) - 1))
        how = data.draw(st.sampled_from(["drop", "double", "junk", "swap", "cut"]))
        if how == "drop":
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "junk":
            lines[at] = data.draw(
                st.sampled_from(["\t-1,x", "\t", "'", "\t" + "9" * 40, "\x00", "'Target"])
            )
        elif how == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            lines = [*lines[:at], "", ""]
    with contextlib.suppress(ParseError):
        icf.read_workloads("\n".join(lines))
