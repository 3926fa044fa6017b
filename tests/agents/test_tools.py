"""Every tool driver against its cases: what real runs printed, and what must be read in it.

`tests/cases/tools/<kind>/NAME.expected.json` stands beside the raw output NAME.<anything>. It is the full list of
metrics, `[[name, value, unit], …]` (labels may follow), or an object: `{"note", "options", "as": "stderr", "metrics"}`,
or with `"error": "part of the message"` and `"line"` instead of metrics. NAME.job.json holds
`{"options", "target", "job" or "error"}`. Of one that only asks, --accept writes the answer, and fails: read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents import options as driver_options
from agents.contracts import Claim, Job, Metric, OptionsError, ParseError, Target, Unit
from agents.drivers import registry
from agents.drivers.protocols import Tool
from tests.agents import layer_cases
from tests.each_case import check_each

CASES = Path(__file__).parents[1] / "cases" / "tools"
SUFFIX = ".expected.json"
Accepted = Callable[[Path, str], None]
MANDATORY = ("empty", "truncated", "failed")


def cases(kind: str, suffix: str = SUFFIX) -> list[Path]:
    return sorted((CASES / kind).glob(f"*{suffix}"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def expectation(path: Path) -> dict[str, Any]:
    data = json.loads(path.read_text())
    return data if isinstance(data, dict) else {"metrics": data}


def raw(path: Path) -> bytes:
    name = path.name.removesuffix(SUFFIX)
    (found,) = (
        other
        for other in path.parent.iterdir()
        if other != path and other.name.rpartition(".")[0] == name
    )
    return found.read_bytes()


def measured(path: Path) -> list[Metric]:
    expected = expectation(path)
    tool: Tool[Any] = registry.tool(path.parent.name)
    built = driver_options.build_options(tool.Options, expected.get("options", {}))
    return tool.parse({expected.get("as", "stdout"): raw(path)}, built)


def answered(path: Path) -> dict[str, Any]:
    """Present answer of the driver to a case that only asks."""
    expected = expectation(path)
    try:
        return {**expected, "metrics": rows(measured(path))}
    except ParseError as error:
        return {**expected, "error": str(error), "line": error.line}


def rows(metrics: list[Metric]) -> list[list[Any]]:
    return [
        [m.name, m.value, m.unit.value, *([dict(m.labels)] if m.labels else [])] for m in metrics
    ]


@pytest.mark.parametrize("kind", registry.all_tools())
def test_output(kind: str, accepted: Accepted) -> None:
    check_each(lambda path: check_output(path, accepted), cases(kind), name_of)


def check_output(path: Path, accepted: Accepted) -> None:
    expected = expectation(path)
    if not {"metrics", "error"} & expected.keys():
        accepted(path, layer_cases.written(answered(path)))
    if "error" in expected:
        with pytest.raises(ParseError) as caught:
            measured(path)
        assert expected["error"] in str(caught.value)
        assert caught.value.line == expected.get("line", 0)
        return
    found = rows(measured(path))
    assert [row[0] for row in found] == [row[0] for row in expected["metrics"]]
    for got, wanted in zip(found, expected["metrics"], strict=True):
        value = wanted[1] if wanted[1] is None else pytest.approx(wanted[1], rel=1e-12)
        assert got == [wanted[0], value, *wanted[2:]], got[0]


@pytest.mark.parametrize("kind", registry.all_tools())
def test_every_line_is_one_of_the_output_that_it_is_said_of(kind: str) -> None:
    """Also where the other output is not empty: dd prints to stderr, whatever stands in stdout."""
    check_each(check_lines, cases(kind), name_of)


def check_lines(path: Path) -> None:
    expected = expectation(path)
    if "error" in expected:
        return
    tool: Tool[Any] = registry.tool(path.parent.name)
    built = driver_options.build_options(tool.Options, expected.get("options", {}))
    name = expected.get("as", "stdout")
    outputs = {"stdout": b"", "stderr": b"", name: raw(path)}
    if path.parent.name == "dd":
        outputs = {"stdout": b"a script's own words\n", "stderr": raw(path)}
    for metric in tool.parse(outputs, built):
        if metric.line:
            lines = outputs[metric.output].decode("utf-8", "replace").split("\n")
            assert metric.line <= len(lines), metric
        else:
            assert not metric.output


@pytest.mark.parametrize("kind", registry.all_tools())
def test_job(kind: str, accepted: Accepted) -> None:
    check_each(lambda path: check_job(path, accepted), cases(kind, ".job.json"), name_of)


def check_job(path: Path, accepted: Accepted) -> None:
    case = json.loads(path.read_text())
    tool = registry.tool(path.parent.name)
    if not {"job", "error"} & case.keys():
        accepted(path, layer_cases.written(case | planned(tool, case)))
    if "error" in case:
        with pytest.raises(OptionsError) as caught:
            tool.build_job(
                driver_options.build_options(tool.Options, case["options"]), target(case)
            )
        assert case["error"] in str(caught.value)
        return
    built = driver_options.build_options(tool.Options, case["options"])
    job = tool.build_job(built, target(case))
    found = {
        **facts_of(job),
        "inputs": {
            name: text.decode("utf-8", "replace").splitlines() for name, text in job.inputs.items()
        },
        "outstanding": tool.outstanding_ios(built),
    }
    wanted = case["job"]
    assert {key: found[key] for key in wanted} == wanted
    assert 0 < job.expected_s <= job.timeout_s


def facts_of(job: Job) -> dict[str, Any]:
    return {"argv": list(job.argv), "outputs": list(job.outputs), "writes": job.writes}


def planned(tool: Tool[Any], case: dict[str, Any]) -> dict[str, Any]:
    """Present answer of the driver to a case that only asks: the job without its inputs, or the error."""
    try:
        built = driver_options.build_options(tool.Options, case["options"])
        job = tool.build_job(built, target(case))
    except OptionsError as error:
        return {"error": str(error)}
    return {"job": {**facts_of(job), "outstanding": tool.outstanding_ios(built)}}


def target(case: dict[str, Any]) -> Target:
    data = dict(case["target"])
    devices = {
        use: tuple(Claim(**claim) for claim in claims)
        for use, claims in data.pop("devices", {}).items()
    }
    return Target(devices=devices, **{"name": "bl1", **data})


@pytest.mark.parametrize("kind", registry.all_tools())
def test_every_tool_has_its_cases(kind: str) -> None:
    names = [path.name for path in (CASES / kind).glob(f"*{SUFFIX}")]
    missing = [word for word in MANDATORY if not any(word in name for name in names)]
    assert not missing, f"tests/cases/tools/{kind} lacks a case named {', '.join(missing)}"
    assert list((CASES / kind).glob("*.job.json")), f"tests/cases/tools/{kind} lacks a job case"


@pytest.mark.parametrize("kind", registry.all_tools())
def test_options_make_a_form(kind: str) -> None:
    tool = registry.tool(kind)
    schema = driver_options.schema(tool.Options)
    assert all(field.get("description") for field in schema["properties"].values())
    built = driver_options.build_options(tool.Options, {})
    data = json.loads(json.dumps(driver_options.dump(built)))
    assert driver_options.build_options(tool.Options, data) == built


@pytest.mark.parametrize("kind", registry.all_tools())
def test_metrics_are_in_base_units(kind: str) -> None:
    check_each(check_units, cases(kind), name_of)


def check_units(path: Path) -> None:
    if "error" in expectation(path):
        return
    metrics = measured(path)
    for metric in metrics:
        assert isinstance(metric.unit, Unit)
        assert metric.value is None or (metric.value >= 0 and metric.value == metric.value)
    keys = [(m.name, tuple(sorted(m.labels.items()))) for m in metrics]
    assert len(keys) == len(set(keys))


def test_the_options_that_make_the_depth_are_those_of_the_tools_there_are(monkeypatch):
    assert {"iodepth", "threads", "outstanding_ios"} <= set(registry.depth_options())
    with monkeypatch.context() as without:
        without.setattr(registry, "all_tools", dict)
        assert registry.depth_options() == ()
    assert "iodepth" in registry.depth_options()
