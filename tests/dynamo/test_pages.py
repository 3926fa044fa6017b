"""Pages of dynamo: its program, .icf files, hosts that only it reaches, IOmeter's .csv, and the whole preset."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from agents.contracts import AgentError, Target
from agents.dynamo import bundle, icf
from agents.plaintext import of_file
from agents.tools import dynamo as tool
from benchlab.campaigns.models import Run, Workload
from benchlab.dynamo import iometer_files, program_check, run_part
from benchlab.dynamo.models import Binary, ConsoleLines, Reported
from benchlab.engine.checks import previews
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import ssh_access
from benchlab.hosts.models import Host
from benchlab.runs import artifact_figures, artifacts, conclusion
from benchlab.runs.models import Attempt
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from benchlab.topologies.models import Topology
from benchlab.workers import messages

pytestmark = pytest.mark.django_db
FULL = Path(__file__).parents[1] / "cases" / "tools" / "dynamo" / "full.bin"
ELF = b"\x7fELF" + struct.pack("<4B", 2, 1, 1, 0)
FINAL = (
    ELF + b"\0libaio.so.1\0Dynamo version 1.1.0\0Unknown purpose found in message\0" + b"x" * 100
)
RC1 = ELF + b"\0librt.so.1\0aio_suspend\0 1.1.0 \0"


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """No message leaves for a worker."""
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


@pytest.fixture
def owner(user, team):
    Membership.objects.filter(user=user, team=team).update(role=Role.OWNER)
    return user


def upload(web, raw: bytes):
    return web.post("/dynamo/", {"program": SimpleUploadedFile("dynamo", raw)}, follow=True)


def test_a_program_is_kept_once_with_its_digest(web, owner):
    assert "1.1.0" in upload(web, FINAL).content.decode()
    upload(web, FINAL)
    row = Binary.objects.get()
    assert (row.version, row.size, bytes(row.content)) == ("1.1.0", len(FINAL), FINAL)
    assert f"sha256:{row.sha256}" in web.get("/dynamo/").content.decode()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"MZ" + b"x" * 100, "not a Linux program"),
        (RC1, "1.1.0-rc1"),
        (ELF + b"1.1.0-rc1 libaio.so.1", "1.1.0-rc1"),
        (ELF + b"2006.07.27", "only 1.1.0 is supported"),
        (ELF + b"/bin/true", "does not identify itself"),
        (ELF + b"libaio.so.1 1.1.0", "another program"),
    ],
    ids=[
        "windows",
        "rc1 by its libraries",
        "rc1 by its name",
        "old",
        "no version",
        "another program",
    ],
)
def test_what_is_no_dynamo_is_refused(web, owner, raw, said):
    assert said in upload(web, raw).content.decode().replace("&#x27;", "'")
    assert not Binary.objects.exists()


def test_only_an_owner_uploads_what_runs_as_root(web, user, team):
    Membership.objects.filter(user=user, team=team).update(role=Role.OPERATOR)
    assert upload(web, FINAL).status_code == 403
    assert not Binary.objects.exists()


def test_an_icf_is_shown_before_anything_is_made(web, owner):
    options = {"block_size": 8192, "read_percent": 50, "random_percent": 50, "outstanding_ios": 1}
    more = {"size": 1 << 30, "runtime_s": 60}
    lines = icf.Workload(
        "8 KiB; half",
        options | more,
        {"outstanding_ios": [1, 2, 4]},
        description="Array 3, nightly",
    )
    text = icf.write_icf(icf.build_config([lines]))
    page = web.post("/dynamo/icf/", {"file": SimpleUploadedFile("a.icf", text.encode())})
    assert "8 KiB; half" in page.content.decode() and not Workload.objects.exists()
    web.post("/dynamo/icf/", {"text": text, "take": "0"})
    made = Workload.objects.get()
    assert (made.tool, made.sweep) == ("dynamo", {"outstanding_ios": [1, 2, 4]})
    back = web.get(f"/workloads/{made.pk}/iometer.icf")
    (again,) = icf.read_workloads(back.content.decode())
    assert dict(again.sweep) == {"outstanding_ios": [1, 2, 4]}
    assert made.description == again.description == "Array 3, nightly"
    assert "Array 3, nightly" in web.get(f"/workloads/{made.pk}/").content.decode()
    assert "attachment" in back["Content-Disposition"]


def test_what_is_no_icf_is_told(web, owner):
    page = web.post("/dynamo/icf/", {"file": SimpleUploadedFile("a.icf", b"hello")})
    assert "not an IOmeter configuration" in page.content.decode()


def test_a_whole_disk_is_given_by_typing_its_name(web, owner, team):
    host = Host.objects.create(team=team, name="win", access="dynamo", address="192.0.2.1")
    row = Reported.objects.create(host=host, name="PHYSICALDRIVE:1", raw=True)
    page = web.get(f"/hosts/{host.pk}/").content.decode()
    assert "not to be touched" in page and "Make a topology" not in page
    for typed in ("", "PHYSICALDRIVE", "physicaldrive:1"):
        web.post(f"/dynamo/targets/{row.pk}/spare/", {"typed": typed})
        row.refresh_from_db()
        assert not row.usable
    web.post(f"/dynamo/targets/{row.pk}/spare/", {"typed": "PHYSICALDRIVE:1"})
    row.refresh_from_db()
    assert row.usable and row.spare_by == owner
    web.post(f"/dynamo/targets/{row.pk}/topology/")
    assert Topology.objects.get().stack[0]["options"] == {"target": "PHYSICALDRIVE:1"}
    web.post(f"/dynamo/targets/{row.pk}/spare/", {"keep": "1"})
    row.refresh_from_db()
    assert not row.usable


def test_the_article_fills_the_wizard(web, owner):
    answer = web.post("/campaigns/preset/", {"preset": "article-002"})
    page = web.get(answer.url).content.decode()
    assert "Article 002" in page and page.count("checked") >= 7
    load = Workload.objects.get()
    assert (load.tool, load.sweep) == ("dynamo", {"outstanding_ios": [1, 2, 4, 8, 16]})
    assert load.options["ramp_s"] == 30 and load.options["runtime_s"] == 600
    stacks = [row.stack for row in Topology.objects.all()]
    assert len(stacks) == 6 and all(stack[0]["kind"] == "manual" for stack in stacks)
    web.post("/campaigns/preset/", {"preset": "article-002"})
    assert (Workload.objects.count(), Topology.objects.count()) == (1, 6)


def test_the_histogram_has_every_io():
    found = [(0.0, 5e-5, 1.0), (5e-5, 1e-4, 3.0), (1e-4, 2e-4, 0.0)]
    made = run_part.latency_histogram("run 1", found)
    assert made["data"][0]["y"] == [0.25, 0.75, 0.0]
    assert made["data"][0]["customdata"] == [1.0, 3.0, 0.0]
    assert run_part.latency_histogram("run 1", [])["data"] == []


def test_rc1_and_final_are_told_apart_by_their_libraries():
    assert program_check.identify_version(["1.1.0"], libaio=True, posix=True) == "1.1.0"
    with pytest.raises(program_check.Refused, match="rc1"):
        program_check.identify_version(["1.1.0"], libaio=False, posix=True)


def test_a_campaign_on_what_dynamo_reports_shows_its_plan(web, owner, team):
    host = Host.objects.create(team=team, name="win", access="dynamo", address="192.0.2.1")
    Reported.objects.create(host=host, name="C:", raw=False)
    Reported.objects.create(host=host, name="sdb", raw=True)
    load = Workload.objects.create(
        team=team, name="8k", tool="dynamo", options={}, sweep={"outstanding_ios": [1, 2]}
    )
    pages = {}
    for target in ("C:", "sdb"):
        stack = [{"kind": "reported", "options": {"target": target}, "devices": []}]
        one = Topology.objects.create(team=team, name=target, stack=stack)
        campaign = create_campaign(
            team=team, user=owner, name=target, question="", hosts=[host], topologies=[one],
            workloads=[load], repeats=1, order="as_written",
        )  # fmt: skip
        previews.plan_draft(campaign.layouts.get().pk)
        pages[target] = web.get(f"/campaigns/{campaign.pk}/").content.decode()
    assert "dynamo C:" in pages["C:"]
    assert "marks it spare" in pages["sdb"]


def test_the_plan_shows_no_zip_as_text():
    chosen = Target("scratch", mount="/srv/scratch")
    inputs = tool.build_job(tool.Options(), chosen).inputs
    files = {name: of_file(content) for name, content in inputs.items()}
    raw = bundle.build_bundle()
    said = f"binary, {len(raw)} bytes, SHA-256 {hashlib.sha256(raw).hexdigest()}"
    assert files[bundle.NAME] == said
    assert '"outstanding": 1' in files[tool.CONFIG]


def test_nobody_connects_to_such_a_host(owner, team):
    host = Host.objects.create(team=team, name="win", access="dynamo", address="192.0.2.1")
    assert host.credential is None
    with pytest.raises(AgentError, match="not reached by SSH"):
        ssh_access.connect_to_host(host)


def test_results_go_out_as_iometer_writes_them(web, owner, team):
    host = Host.objects.create(team=team, name="win", access="dynamo", address="192.0.2.1")
    stack = [{"kind": "reported", "options": {"target": "C:"}, "devices": []}]
    one = Topology.objects.create(team=team, name="C:", stack=stack)
    load = Workload.objects.create(
        team=team, name="8 KiB, half", tool="dynamo", options={"workers": 2}
    )
    campaign = create_campaign(
        team=team, user=owner, name="c", question="", hosts=[host], topologies=[one], workloads=[load],
        repeats=1, order="as_written",
    )  # fmt: skip
    attempt = Attempt.objects.get()
    artifacts.store_artifacts(attempt, {"messages.bin": FULL.read_bytes(), "samples": b""})
    conclusion.replace_figures(attempt, artifact_figures.read_figures(attempt))
    Attempt.objects.update(phase="done", outcome="succeeded")
    for url in (f"/attempts/{attempt.pk}/iometer.csv", f"/campaigns/{campaign.pk}/iometer.csv"):
        text = web.get(url).content.decode()
        assert text.startswith("'Test Type,Test Description")
        assert text.count("\nALL,All,8 KiB; half,") == 1 and text.count("\nWORKER,") == 2
        assert "'Access specification name,default assignment\r\n8 KiB; half,0" in text
    assert "\t8 KiB; half,NONE" in web.get(f"/workloads/{load.pk}/iometer.icf").content.decode()
    page = web.get(f"/runs/{attempt.run_id}/").content.decode()
    assert "Workers and targets" in page and "Worker 2" in page
    assert "BenchLab asked dynamo 2 times while it measured: 5.09 MiB" in page
    ios = attempt.measurements.get(name="ios", labels={}).value
    figure = web.get(f"/attempts/{attempt.pk}/latency.json").json()
    assert sum(figure["data"][0]["customdata"]) == ios
    ConsoleLines.objects.create(attempt=attempt, lines='{"phase": "record", "iops": 1234.5}\n')
    assert "1.23 k IOPS" in web.get(f"/attempts/{attempt.pk}/now/").content.decode()


def test_a_sweep_names_its_access_in_the_csv():
    run = Run(workload=Workload(name="a, b"), point={"block_size": 4096, "outstanding_ios": 4})
    assert iometer_files.spec_name(run) == "a; b; block_size 4096"
