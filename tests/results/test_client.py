"""The client and the notebook against a live server, as in production; and the client's patience, without one."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request

import pandas as pd
import pyarrow.ipc
import pytest
from django.core.management import call_command

from agents.plans import applied_part
from benchlab import client
from benchlab.campaigns.models import Campaign
from benchlab.client import Lab, LabError
from benchlab.imports.reference_library import LIBRARY
from benchlab.runs.models import Measurement
from benchlab.team import tokens
from benchlab.team.roles import Role
from tests import stack
from tests.charts import made
from tests.topologies import plans
from tests.topologies.test_drawing import GROWING, GROWTH, HOST

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "article-002.ipynb"


@pytest.fixture
def lab(user, transactional_db, tmp_path):
    _, key = tokens.create_token(user, "notebook", Role.OPERATOR)
    with stack.web(tmp_path, stack.redis_url(9)) as url:
        yield Lab(url, key)


@pytest.fixture
def campaign(team):
    one = made.campaign(team)
    host, topology, load = made.host(team), made.topology(team, "lvm_cache"), made.workload(team)
    attempts = made.swept(one, host, topology, load, depths=(1, 4, 16), repeats=2)
    made.sampled(attempts[0], disks=2, seconds=60)
    return one


@pytest.mark.django_db(transaction=True)
def test_the_client_against_a_live_server(campaign, lab):
    frame = lab.results(campaign=campaign.name, metric="iops", outstanding__gte=4)
    assert isinstance(frame, pd.DataFrame) and set(frame.outstanding) == {4, 16} and len(frame) == 4
    assert str(frame.started_at.dtype).startswith("datetime64") and set(frame.unit) == {"op/s"}
    everything = Measurement.objects.count()
    assert len(lab.results()) == everything == len(lab.results(metric=["iops", "*"]))
    series = lab.series(campaign=campaign.pk)
    assert {"device", "metric", "time", "value"} <= set(series) and len(series) > 100
    assert [one["name"] for one in lab.campaigns()] == [campaign.name]
    for form, read in (
        ("parquet", pd.read_parquet),
        ("csv", pd.read_csv),
        ("arrow", lambda file: pyarrow.ipc.open_stream(file).read_pandas()),
    ):
        found = read(io.BytesIO(lab.download(form=form, metric="iops", outstanding__gte=4)))
        assert list(found.value) == list(frame.value), form
    assert len(pd.read_parquet(io.BytesIO(lab.download("/api/series-table/")))) == len(series)
    assert lab.wait(campaign.pk, quiet=True)["state"] == "done"
    with pytest.raises(LabError, match=r"topolgy.*No such parameter") as refused:
        lab.results(topolgy="x")
    assert refused.value.status == 400 and "topolgy" in refused.value.errors
    with pytest.raises(LabError, match="404 Not Found"):
        lab.wait(10**9)
    wide = lab.results(wide=True)
    assert wide.attrs["units"]["iops"] == "op/s" and len(wide) == 6


@pytest.mark.django_db(transaction=True)
def test_long_answers_of_the_real_server(campaign, lab):
    """More than one part: made by a thread of its own, in every format; also when nobody takes them."""
    attempt = campaign.runs.first().attempts.get()
    Measurement.objects.bulk_create(
        Measurement(attempt=attempt, name=f"m{n}", value=n, unit="1", note="x" * 500)
        for n in range(9000)
    )
    headers = {"Authorization": f"Bearer {lab._token}"}
    expected = Measurement.objects.count()
    assert len(pd.read_csv(f"{lab.url}/api/results/", storage_options=headers)) == expected
    url = f"{lab.url}/api/results/?format=parquet"
    assert len(pd.read_parquet(url, storage_options=headers)) == expected
    for _ in range(12):  # more than may be under way at once
        request = Request(f"{lab.url}/api/results/", headers=headers)
        client.OPENER.open(request, timeout=30).close()
    assert len(lab.results()) == expected


@pytest.mark.django_db(transaction=True)
def test_the_notebook_redraws_the_article(user, lab):
    call_command("load_library", verbosity=0)
    environment = {"BENCHLAB_URL": lab.url, "BENCHLAB_TOKEN": lab._token}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        figure = executed(NOTEBOOK)["figure"]
    printed = {
        (int(found["depth"]), float(found["iops"]), float(found["ms"]))
        for path in (LIBRARY / "azure-iometer").glob("*-outstanding.figures.txt")
        for found in re.finditer(
            r"outstanding: (?P<depth>\d+)\n.*?\niops = (?P<iops>\S+) op/s.*?\nlat\.mean = (?P<ms>\S+) ms",
            path.read_text(), re.S)
    }  # fmt: skip
    half = len(figure.data) // 2
    drawn = {
        (int(depth), float(rate), round(float(latency), 9))
        for rates, latencies in zip(figure.data[:half], figure.data[half:], strict=True)
        for depth, rate, latency in zip(rates.x, rates.y, latencies.y, strict=True)
    }
    assert half == 2 and len(printed) >= 9 and drawn == printed


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_first_examples_of_the_documentation_on_a_new_installation(user, lab):
    """They printed a KeyError: campaign 1 is the library's, and was left out."""
    call_command("load_library", verbosity=0)
    first = Campaign.objects.order_by("pk")[0].pk
    blocks = re.findall(r"(?ms)^```\n(.*?)^```$", (ROOT / "docs" / "api.md").read_text())
    examples = [
        block.replace("campaign=1&", f"campaign={first}&") for block in blocks if "pd." in block
    ]
    assert len(examples) == 2
    names: dict[str, Any] = {"pd": pd, "URL": lab.url, "TOKEN": lab._token}
    *before, last = examples[0].strip().split("\n")
    exec("\n".join(before), names)
    table = eval(last, names)
    assert len(table) > 3 and table.notna().any().all() and table.index.name == "outstanding"
    assert len(eval(examples[1], names)) > 3


def executed(path: Path) -> dict:
    """The notebook's names after its cells ran in order: what a kernel would do, without one."""
    names: dict = {}
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "outputs are not kept"
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
    return names


def test_it_may_be_copied_alone(tmp_path):
    """No Django, no pandas, nothing of ours beside it."""
    (tmp_path / "client.py").write_text(Path(client.__file__).read_text())
    code = "import sys; sys.path.insert(0, '.'); import client; print(client.Lab('http://x', 'k'))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "Lab('http://x')\n", done.stderr


@contextmanager
def answering(*answers):
    """A server that gives these (status, headers, body) in turn, the last one again; yields (url, requests)."""
    asked: list = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            length = int(self.headers.get("Content-Length") or 0)
            asked.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
            status, headers, body = answers[min(len(asked), len(answers)) - 1]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_POST = do_GET

        def log_message(self, *given):
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def patient(url: str) -> tuple[Lab, list[float]]:
    slept: list[float] = []
    lab = Lab(url, "key")
    lab._sleep = slept.append
    return lab, slept


def test_it_asks_again_and_a_post_is_the_same_one():
    busy = (429, {"Retry-After": "7"}, {"title": "Too Many Requests", "status": 429, "detail": "x"})
    with answering(busy, (503, {}, {}), (200, {}, {"ok": True})) as (url, asked):
        lab, slept = patient(url)
        assert lab.post("/api/x/", {"a": 1}) == {"ok": True}
    assert slept[0] == 7 and 0.5 < slept[1] < 4
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in asked}) == 1 and len(asked) == 3


def test_it_gives_up_in_words():
    with answering((500, {}, {})) as (url, asked):
        lab, slept = patient(url)
        with pytest.raises(LabError, match="500") as error:
            lab.get("/api/x/")
    assert error.value.status == 500 and len(asked) == 1
    lab, slept = patient("http://127.0.0.1:1")
    with pytest.raises(LabError, match="does not answer"):
        lab.get("/api/x/")
    assert len(slept) == client.TRIES - 1


def test_the_token_goes_nowhere_else():
    with (
        answering((200, {}, {})) as (other, stolen),
        answering((302, {"Location": f"{other}/api/x/"}, {})) as (url, _),
        pytest.raises(LabError, match="go to"),
    ):
        patient(url)[0].get("/api/x/")
    assert not stolen


def test_nothing_is_started_that_was_not_confirmed(capsys):
    layout = {"id": 3, "name": "blx3", "plan_error": "", "plan_fingerprint": "f" * 64,
              "plan": {"claims": [{"identity": "serial:S1", "node": "/dev/sdb"}]}}  # fmt: skip
    plans: list[Any] = [(200, {}, {}), (200, {}, {"results": [layout], "next": None})]
    with answering(*plans, (200, {}, {"state": "queued"})) as (url, asked):
        told = patient(url)[0].start(7, lambda seen: seen == {"3": "f" * 64})
    assert told == {"state": "queued"} and json.loads(asked[2][3]) == {"confirmed": {"3": "f" * 64}}
    assert "/dev/sdb serial:S1" in capsys.readouterr().out
    for said in (lambda seen: False, {"3": "other"}):
        with answering(*plans) as (url, asked), pytest.raises(LabError):
            patient(url)[0].start(7, said)
        assert len(asked) == 2
    with (
        answering(*plans) as (url, asked),
        pytest.raises(LabError),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("builtins.input", lambda text: "no")
        patient(url)[0].start(7)


def test_plans_that_never_come_are_not_waited_for_for_ever(monkeypatch):
    """No worker runs: POST plan only asked for them."""
    layout = {"id": 3, "name": "blx3", "plan_error": "", "plan_fingerprint": "", "plan": None}
    other = layout | {"id": 4, "name": "blx4", "plan_error": "no spare disk"}
    monkeypatch.setattr(client, "PLAN_S", 0.2)
    plans: list[Any] = [(200, {}, {}), (200, {}, {"results": [layout, other], "next": None})]
    with answering(*plans) as (url, asked):
        lab, slept = patient(url)
        with pytest.raises(LabError, match=r"after 0 s .* blx3\. .*worker") as refused:
            lab.start(7, lambda seen: True)
    assert refused.value.status == 0 and set(slept) == {client.PLAN_POLL_S}
    assert not [path for _, path, _, _ in asked if "apply" in path]


def test_a_layout_that_cannot_be_built_says_why():
    layout = {"id": 3, "name": "blx3", "plan_error": "no spare disk", "plan_fingerprint": ""}
    plans: list[Any] = [(200, {}, {}), (200, {}, {"results": [layout], "next": None})]
    with answering(*plans) as (url, _), pytest.raises(LabError, match="blx3: no spare disk"):
        patient(url)[0].start(7, lambda seen: True)


def test_the_bar_and_the_wait(monkeypatch):
    progress = {"runs": 10, "counts": {"succeeded": 4, "failed": 1, "queued": 5}, "eta_s": 180.0}
    running = {"state": "running", "progress": progress}
    over = {"state": "done", "progress": progress | {"counts": {"succeeded": 10}, "eta_s": None}}
    assert client.bar(running).startswith(
        "[###############---------------] 5 of 10 runs, 1 failed, some 3 min"
    )
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with answering((200, {}, running), (200, {}, over)) as (url, _):
        lab, slept = patient(url)
        assert lab.wait(1) == over and slept == [client.POLL_S]
    with (
        answering((200, {}, {"state": "draft"})) as (url, _),
        pytest.raises(LabError, match="not started"),
    ):
        patient(url)[0].wait(1)


def test_without_pandas_it_is_rows(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    told = {"rows": 2, "columns": [], "data": {"run": [1, 2], "value": [0.5, None]}}
    with answering((200, {}, told)) as (url, asked):
        rows = patient(url)[0].results(library=True, metric=["a", "b"])
    assert rows == [{"run": 1, "value": 0.5}, {"run": 2, "value": None}]
    assert asked[0][1] == "/api/results/?library=true&metric=a&metric=b&format=json"
    assert "BENCHLAB_TOKEN" not in os.environ


def test_what_a_plan_destroys_is_told_before_it_is_agreed_to(monkeypatch, capsys):
    """Of a plan as it is stored: its claims are with its layers, growth's with the stages."""
    plan = applied_part.to_json(plans.made(GROWING, HOST, GROWTH))
    layout = {"id": 7, "name": "bl7", "plan": plan, "plan_error": "", "plan_fingerprint": "f00"}
    lab = client.Lab("http://127.0.0.1:1", "t")
    monkeypatch.setattr(lab, "post", lambda *given: {})
    monkeypatch.setattr(lab, "every", lambda *given, **query: iter([layout]))
    assert lab.plan(1) == {"7": "f00"}
    told = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    wanted = {claim.identity: claim.node for claim in applied_part.from_json(plan).claims}
    assert [[what, node] for what, node, _ in told] == [
        ["destroys", n] for n in sorted(wanted.values())
    ]
    assert {identity: node for _, node, identity in told} == wanted and len(wanted) > 2
