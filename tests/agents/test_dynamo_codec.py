"""Bytes to typed messages and back: every captured message, and any that can be made."""

from __future__ import annotations

import contextlib
import itertools
import math
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.dynamo import messages, results, wire
from agents.dynamo.wire import DATA_BYTES, DynamoError, Inbox, Message
from benchlab.testing.profiles import examples
from tests.agents.dynamo_encoding import (
    encode_manager_info,
    encode_manager_results,
    encode_worker_results,
)
from tests.agents.dynamo_vectors import SESSIONS, Vector, everything, session
from tests.each_case import check_each

TICKS = 2.59612e9


def test_there_are_196() -> None:
    assert len(everything()) == 196


def check_message(v: Vector) -> None:
    found = wire.decode_message(v.raw)
    assert found == Message(int(v.decoded["purpose"], 16), v.decoded["data"])
    assert found.purpose_name in v.kind.removesuffix("_reply")
    assert found.encode() == v.raw


def check_login(v: Vector) -> None:
    info = messages.decode_manager_info(v.whole)
    assert info.ticks == v.decoded["timer_resolution"]
    assert info[:6] == tuple(
        v.decoded[key] for key in ("size", "version", "name", "address", "port", "processors")
    )
    assert encode_manager_info(info) == v.whole


def check_access(v: Vector) -> None:
    spec = messages.decode_access_spec(v.whole)
    assert (spec.name, spec.default_assignment) == (
        v.decoded["name"],
        v.decoded["default_assignment"],
    )
    assert [(n.of_size, n.reads, n.random, n.size, n.align) for n in spec.lines] == [
        (n["of_size_percent"], n["reads_percent"], n["random"], n["size"], n.get("align", 0))
        for n in v.decoded["lines"]
    ]
    assert spec.encode() == v.whole


def check_targets(v: Vector) -> None:
    found = messages.decode_targets(v.whole)
    assert len(found) == v.decoded["count"]
    for target, said in zip(found, v.decoded["targets"], strict=True):
        same: dict[str, Any] = {
            name: getattr(target, name) for name in said if hasattr(target, name)
        }
        same["type"] = hex(target.type)
        if isinstance(target.details, messages.Disk):
            disk = target.details._asdict()
            disk["maximum_size_sectors"] = disk.pop("maximum_size")
            same.update(disk)
        assert same == said
    if v.direction == "c2d" or v.kind == "targets_echo":
        assert messages.encode_targets(found) == v.whole


def check_manager(v: Vector) -> None:
    found = results.decode_manager_results(v.whole)
    said = v.decoded
    assert found[:3] == (said["jiffies_first"], said["jiffies_last"], said["cpu_count"])
    assert [list(cpu) for cpu in found.cpus] == said["cpus"]
    assert [list(one) for one in found.interfaces] == said["ni_stats"]
    assert results.decode_manager_results(encode_manager_results(found)) == found


def check_worker(v: Vector) -> None:
    found = results.decode_worker_results(v.whole, len(v.decoded["targets"]), TICKS)
    assert (found.first, found.last) == (v.decoded["tsc_first"], v.decoded["tsc_last"])
    for target, said in zip(found.targets, v.decoded["targets"], strict=True):
        assert list(target.bins) == said.get("latency_bins", [])
        assert list(target[:17]) == [value for key, value in said.items() if key != "latency_bins"]
    assert encode_worker_results(found)[8 : len(v.raw)] == v.raw[8:]


CHECKS = {
    "login_manager_info": check_login,
    "access_spec": check_access,
    "targets": check_targets,
    "targets_echo": check_targets,
    "report_disks": check_targets,
    "report_tcp": check_targets,
    "report_vi": check_targets,
    "manager_results": check_manager,
    "worker_results": check_worker,
}


@pytest.mark.parametrize("name", SESSIONS)
def test_captured(name: str) -> None:
    check_each(
        lambda vector: CHECKS.get(vector.kind, check_message)(vector),
        session(name),
        name=lambda vector: f"{vector.seq:02}-{vector.kind}",
    )


def test_rc1_is_known_by_its_results_though_two_targets_fill_the_place_of_the_bins() -> None:
    (rc1,) = (v for v in everything() if v.session == "rc1" and v.kind == "worker_results")
    wide = struct.unpack_from("<21q", rc1.whole, 28 + 128)
    assert sum(wide) > 0  # the second target's counters, where 1.1.0 has the first one's bins
    assert results.detect_stride(rc1.whole, 2, TICKS) == results.STRIDE_RC1
    single = rc1.raw[: 28 + 128].ljust(DATA_BYTES, b"\0")
    single = single[:24] + struct.pack("<i", 1) + single[28:]
    assert not results.decode_worker_results(single, 1, TICKS).targets[0].bins
    stale = single[:260] + struct.pack("<I", 0xCA000000) + single[264:]  # old memory behind it
    assert not results.decode_worker_results(stale, 1, TICKS).targets[0].bins


def test_an_io_of_ten_seconds_is_in_no_bin() -> None:
    slow = int(12 * TICKS)
    raw = results.RawResult(
        4096, 0, 1, 0, 1, 0, 0, 0, slow, slow, 0, 0, slow, 0, slow, 0, 0, (0,) * 21
    )
    whole = encode_worker_results(results.WorkerResults(1, 2, (raw,)))
    assert results.decode_worker_results(whole, 1, TICKS).targets == (raw,)


def test_rc1_with_one_io_of_ten_seconds_is_still_rc1() -> None:
    """Its bins are not there; of 1.1.0 they would hold the thousand others."""
    slow, many = int(12 * TICKS), 1001
    raw = results.RawResult(
        4096 * many, 0, many, 0, many, 0, 0, 0, 2 * slow, slow, 0, 0, slow, 0, slow, 0, 0, ()
    )
    whole = encode_worker_results(results.WorkerResults(1, 2, (raw,)))
    assert results.detect_stride(whole, 1, TICKS) == results.STRIDE_RC1


def test_results_of_another_number_of_targets_are_out_of_step() -> None:
    whole = encode_worker_results(results.WorkerResults(1, 2, ()))
    with pytest.raises(DynamoError, match="results of 0 targets where 2 were set"):
        results.decode_worker_results(whole, 2, TICKS)


def test_more_than_64_cpus_leave_no_cpu_figures() -> None:
    cpus = (results.Cpu(1.0, 1.0, 0, 0, 0, 0),) * 2
    good = encode_manager_results(results.ManagerResults(1, 2, 2, cpus))
    for count in (0, -1, 128):
        raw = good[:24] + struct.pack("<i", count) + good[28:]
        found = results.decode_manager_results(raw)
        assert (found.cpu_count, found.cpus) == (count, ())


def test_not_a_number_of_an_empty_interval_becomes_nothing() -> None:
    cpu = results.Cpu(math.nan, math.inf, 0, 0, 0, -math.inf)
    found = results.decode_manager_results(
        encode_manager_results(results.ManagerResults(1, 1, 1, (cpu,)))
    )
    assert found.cpus == (results.Cpu(0, 0, 0, 0, 0, 0),)


@pytest.mark.parametrize("count", [-1, 2049, 1 << 30])
def test_impossible_lists_are_refused(count: int) -> None:
    raw = struct.pack("<ii", DATA_BYTES, count).ljust(DATA_BYTES, b"\0")
    with pytest.raises(DynamoError, match="out of sync"):
        messages.decode_targets(raw)


def test_names_that_do_not_fit_are_refused() -> None:
    for name in ("x" * 128, "a\0b", "名"):
        with pytest.raises(DynamoError):
            messages.AccessSpec(name, ()).encode()


NUMBERS = st.integers(-(2**31), 2**31 - 1)
UNSIGNED = st.integers(0, 2**32 - 1)
LONG = st.integers(0, 2**64 - 1)
NAMES = st.text(st.characters(max_codepoint=255, exclude_characters="\0"), max_size=79)
DISKS = st.builds(messages.Disk, NUMBERS, NUMBERS, NUMBERS, NUMBERS, LONG, LONG)
TARGETS = st.builds(
    messages.Target, NAMES, st.sampled_from([0x8A000000, 0x8C000000, 0xCA000000, 0xCC000000]), DISKS,
    NUMBERS, NUMBERS, NUMBERS, LONG, NUMBERS, LONG, NUMBERS, NUMBERS, NUMBERS,
)  # fmt: skip
LINES = st.builds(
    messages.AccessLine, UNSIGNED, st.integers(0, 100), NUMBERS, NUMBERS, NUMBERS, NUMBERS,
    UNSIGNED, UNSIGNED,
)  # fmt: skip
SLOW = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(st.lists(TARGETS, max_size=6))
def test_any_targets_come_back(made: list[messages.Target]) -> None:
    assert messages.decode_targets(messages.encode_targets(made)) == tuple(made)


@SLOW
@given(NAMES, st.lists(LINES, max_size=100), NUMBERS)
def test_any_access_comes_back(name: str, lines: list[messages.AccessLine], given: int) -> None:
    spec = messages.AccessSpec(name, tuple(lines), given)
    assert messages.decode_access_spec(spec.encode()) == spec


@SLOW
@given(st.binary(max_size=6000), st.integers(0, 5))
def test_any_bytes_are_read_or_refused(noise: bytes, targets: int) -> None:
    raw = noise.ljust(DATA_BYTES, b"\0")
    messages.decode_manager_info(raw)
    messages.decode_access_spec(raw)
    found = results.decode_manager_results(raw)
    assert all(math.isfinite(value) for cpu in found.cpus for value in cpu)
    for decode in (
        messages.decode_targets,
        lambda r: results.decode_worker_results(r, targets, TICKS),
    ):
        with contextlib.suppress(DynamoError):
            decode(raw)


@SLOW
@given(st.lists(st.sampled_from(["message", "data"]), max_size=4), st.data())
def test_pieces_of_any_length_make_the_same_messages(kinds: list[str], data: st.DataObject) -> None:
    wanted = [
        Message(wire.START, n).encode() if kind == "message" else wire.pad_message(bytes([n]), n)
        for n, kind in enumerate(kinds)
    ]
    stream, inbox = b"".join(wanted), Inbox()
    found: list[bytes] = []
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        inbox.feed(stream[start:end])
        while (
            len(found) < len(kinds) and (raw := inbox.take_message(kinds[len(found)])) is not None
        ):
            found.append(raw)
    assert found == wanted
    assert len(inbox) == 0
