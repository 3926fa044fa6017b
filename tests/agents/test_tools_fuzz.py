"""Broken outputs: a parser raises ParseError or reads; never another exception, never NaN, never a negative figure."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents import options as driver_options
from agents.contracts import ParseError
from agents.drivers import registry
from benchlab.testing.profiles import examples
from tests.agents.test_tools import CASES, SUFFIX, raw

INSERTS = [
    b"NaN", b"-Infinity", b"1e999", b"-1", b"null", b"{}", b"[]", b"{", b"}", b'"', b"\x00", b"\xff\xfe",
    b"9" * 400, b"9" * 5000, b"[" * 3000, b",", b":", b"\n", b"\r", b"%", b"K", b"e", b".", b"0", b" records in\n",
]  # fmt: skip


@functools.cache
def seeds(kind: str) -> list[bytes]:
    return [raw(path) for path in sorted((CASES / kind).glob(f"*{SUFFIX}"))]


@st.composite
def mutated(draw: st.DrawFn, kind: str) -> bytes:
    data = draw(st.sampled_from(seeds(kind)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 60)))
        how = draw(st.sampled_from(["cut", "end", "insert", "replace", "twice", "flip"]))
        if how == "cut":
            data = data[:start] + data[end:]
        elif how == "end":
            data = data[:start]
        elif how == "insert":
            data = data[:start] + draw(st.sampled_from(INSERTS)) + data[start:]
        elif how == "replace":
            data = data[:start] + draw(st.sampled_from(INSERTS)) + data[end:]
        elif how == "twice":
            data = data[:end] + data[start:end] + data[end:]
        elif data:
            at = min(start, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]
    return data


def check(kind: str, data: bytes, channel: str) -> None:
    tool = registry.tool(kind)
    try:
        found = tool.parse({channel: data}, driver_options.build_options(tool.Options, {}))
    except ParseError:
        return
    for metric in found:
        assert metric.value is None or (math.isfinite(metric.value) and metric.value >= 0)


@pytest.mark.parametrize("kind", registry.all_tools())
@settings(max_examples=examples(600), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_mutated_outputs(kind: str, data: st.DataObject) -> None:
    check(kind, data.draw(mutated(kind)), data.draw(st.sampled_from(["stdout", "stderr"])))


@pytest.mark.parametrize("kind", registry.all_tools())
@settings(max_examples=examples(200), deadline=None)
@given(noise=st.binary(max_size=400))
def test_noise(kind: str, noise: bytes) -> None:
    check(kind, noise, "stdout")


@pytest.mark.parametrize("kind", registry.all_tools())
def test_foreign_files(kind: str) -> None:
    tool = registry.tool(kind)
    here = Path(__file__).read_bytes()
    for data in (b"", b"\n", b"{}", b"[]", b"null", b'{"jobs": 1}', here, b"\x7fELF\x02" * 50):
        with pytest.raises(ParseError):
            tool.parse(
                {"stdout": data, "stderr": b""}, driver_options.build_options(tool.Options, {})
            )
