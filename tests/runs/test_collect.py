"""Which artifact's line a figure stands in: told by whoever read it, and linked on the run's page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchlab.runs import collect
from benchlab.runs.models import Attempt
from tests.charts import made

DD = (Path(__file__).parents[1] / "cases" / "tools" / "dd" / "9.1-direct.txt").read_bytes()


@pytest.fixture
def attempt(team) -> Attempt:
    """Of dd, without any artifact."""
    host, topology = made.host(team), made.topology(team, "raw")
    load = made.workload(team, "dd", "dd")
    (found,) = made.swept(made.campaign(team), host, topology, load, depths=(1,), repeats=1)
    found.run.tool, found.run.options = "dd", {}
    found.run.save()
    found.artifacts.all().delete()
    return found


@pytest.mark.parametrize("stdout", [b"", b"words of a wrapper\n", b"1\n2\n3\n4\n"])
def test_dd_prints_to_stderr_whatever_is_in_stdout(attempt, web, stdout):
    collect.keep(attempt, {"stdout": stdout, "stderr": DD, "dd.json": b"{}"})
    assert collect.reparse(attempt) == ""
    rows = list(attempt.measurements.exclude(line=0))
    assert rows and {row.output for row in rows} == {"stderr"}
    shown = web.get(f"/runs/{attempt.run_id}/").content.decode()
    said = attempt.artifacts.get(name="stderr")
    for row in rows:
        assert f"/artifacts/{said.pk}/lines/?line={row.line}#L{row.line}" in shown


def test_what_is_not_kept_is_not_linked(attempt, web):
    attempt.measurements.update(line=3, output="stderr")
    shown = web.get(f"/runs/{attempt.run_id}/").content.decode()
    assert "/lines/?line=3" not in shown
