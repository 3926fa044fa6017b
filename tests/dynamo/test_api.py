"""dynamo over REST, as its pages do it: programs, what is reported, the listener; and deleting a program by page."""

from __future__ import annotations

import hashlib

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from agents.contracts import AgentError
from agents.dynamo import icf
from benchlab.audit.models import Entry
from benchlab.campaigns.models import Workload
from benchlab.dynamo import dynamo_player, program_check, programs
from benchlab.dynamo.models import Binary, Reported
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import ssh_access
from benchlab.hosts.models import Host
from benchlab.runs import artifacts
from benchlab.runs.models import Attempt
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.topologies.models import Topology
from benchlab.workers import messages
from tests.api.conftest import client_of, is_problem
from tests.charts import made
from tests.dynamo.test_pages import FINAL, FULL, RC1

pytestmark = pytest.mark.django_db
PROGRAMS = "/api/dynamo-programs/"


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """No message leaves for a worker."""
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


@pytest.fixture
def owner(user, team):
    Membership.objects.filter(user=user, team=team).update(role=Role.OWNER)
    return user


@pytest.fixture
def api(owner):
    return client_of(owner)


@pytest.fixture
def target(team) -> Reported:
    host = Host.objects.create(team=team, name="win", access="dynamo", address="192.0.2.1")
    return Reported.objects.create(host=host, name="sdb", raw=True)


def send(api, raw: bytes):
    return api.post(PROGRAMS, {"program": SimpleUploadedFile("dynamo", raw)}, format="multipart")


def used(team, user, row: Binary, in_a_sweep: bool = False) -> Workload:
    """A workload of it, and a campaign."""
    options = {} if in_a_sweep else {"binary": row.option}
    sweep = {"binary": [row.option, "dynamo"]} if in_a_sweep else {}
    load = Workload.objects.create(
        team=team, name="8k", tool="dynamo", options=options, sweep=sweep
    )
    host = Host.objects.create(team=team, name="other", access="dynamo", address="192.0.2.2")
    stack = [{"kind": "reported", "options": {"target": "C:"}, "devices": []}]
    its = Topology.objects.create(team=team, name="C:", stack=stack)
    create_campaign(
        team=team, user=user, name="tuning", question="", hosts=[host], topologies=[its], workloads=[load],
        repeats=1, order="as_written",
    )  # fmt: skip
    return load


def test_a_program_is_uploaded_once_and_found_again(api, owner):
    first, again = send(api, FINAL), send(api, FINAL)
    assert (first.status_code, again.status_code) == (201, 200), first.content
    said = first.json()
    digest = hashlib.sha256(FINAL).hexdigest()
    assert said == again.json()
    assert (said["option"], said["version"], said["uploaded_by"]) == (
        f"sha256:{digest}", "1.1.0", owner.username,
    )  # fmt: skip
    assert "content" not in said
    assert api.get(f"{PROGRAMS}{said['id']}/").json() == said
    assert api.get(PROGRAMS, {"sha256": digest}).json()["results"] == [said]


def test_a_program_is_uploaded_to_the_team_that_is_asked_for(api, owner, other_user):
    second, theirs = Team.objects.create(name="Second"), other_user.teams.get()
    Membership.objects.create(team=second, user=owner, role=Role.OWNER)
    for team, status in ((second, 201), (theirs, 403)):
        body = {"program": SimpleUploadedFile("dynamo", FINAL), "team": team.pk}
        assert api.post(PROGRAMS, body, format="multipart").status_code == status
    assert [row.team for row in Binary.objects.all()] == [second]


@pytest.mark.parametrize("raw", [RC1, b"MZ", b"x"])
def test_what_is_no_dynamo_is_refused_as_on_the_page(api, raw):
    said = is_problem(send(api, raw), 400)
    assert set(said["errors"]) == {"program"}
    assert not Binary.objects.exists()


def test_more_than_a_dynamo_can_have_is_not_read(api, monkeypatch):
    monkeypatch.setattr(programs, "MAX_PROGRAM_BYTES", 50)
    assert "not dynamo" in is_problem(send(api, FINAL), 400)["detail"]


def test_deleting_is_refused_while_somebody_needs_it(api, web, owner, team):
    row = Binary.objects.get(pk=send(api, FINAL).json()["id"])
    for in_a_sweep in (False, True):
        load = used(team, owner, row, in_a_sweep)
        said = is_problem(api.delete(f"{PROGRAMS}{row.pk}/"), 409)
        assert "workload 8k, campaign tuning" in said["detail"]
        page = web.post(f"/dynamo/programs/{row.pk}/delete/")
        assert page.status_code == 409 and "campaign tuning" in page.content.decode()
        assert "Delete dynamo</button>" not in page.content.decode()
        assert Binary.objects.filter(pk=row.pk).exists()
        load.runs.get().campaign.delete() if not in_a_sweep else None
        if not in_a_sweep:
            load.delete()
            Topology.objects.all().delete()
            Host.objects.all().delete()
    tried = Entry.objects.filter(action__in=["binary.destroy", "dynamo-program-delete"])
    assert {entry.outcome for entry in tried} == {"refused"}


def test_another_teams_workload_holds_nothing(api, owner, other_user):
    row = Binary.objects.get(pk=send(api, FINAL).json()["id"])
    Workload.objects.create(
        team=other_user.teams.get(), name="x", tool="dynamo", options={"binary": row.option}
    )
    assert api.delete(f"{PROGRAMS}{row.pk}/").status_code == 204
    assert not Binary.objects.exists()
    entry = Entry.objects.get(action="binary.destroy")
    assert (entry.outcome, entry.team_id) == ("done", row.team_id)
    assert row.name in entry.subject


def test_a_page_asks_and_then_deletes(web, owner, api):
    pk = send(api, FINAL).json()["id"]
    assert f"/dynamo/programs/{pk}/delete/" in web.get("/dynamo/").content.decode()
    page = web.get(f"/dynamo/programs/{pk}/delete/").content.decode()
    assert "Delete dynamo?" in page and Binary.objects.exists()
    answer = web.post(f"/dynamo/programs/{pk}/delete/", follow=True)
    assert "is deleted" in answer.content.decode()
    assert not Binary.objects.exists()
    entry = Entry.objects.get(action="dynamo-program-delete")
    assert entry.outcome == "done" and "dynamo" in entry.subject


def test_an_operator_reads_and_changes_nothing(user, team, web):
    Membership.objects.filter(user=user, team=team).update(role=Role.OPERATOR)
    row = Binary.objects.create(team=team, name="d", version="1.1.0", sha256="0" * 64, size=1)
    api = client_of(user)
    assert api.get(f"{PROGRAMS}{row.pk}/").status_code == 200
    assert send(api, FINAL).status_code == 403
    assert api.delete(f"{PROGRAMS}{row.pk}/").status_code == 403
    assert "/delete/" not in web.get("/dynamo/").content.decode()


def test_a_whole_disk_is_given_and_taken_back(api, target, owner):
    path = f"/api/reported-targets/{target.pk}/"
    assert api.get(path).json()["usable"] is False
    for typed in ("SDB", "sd"):
        is_problem(api.post(f"{path}mark-spare/", {"typed": typed}), 409)
    is_problem(api.post(f"{path}mark-spare/", {}), 400)
    said = api.post(f"{path}mark-spare/", {"typed": "sdb"}).json()
    assert (said["usable"], said["spare_by"]) == (True, owner.username)
    assert target.host.snapshots.first().facts["mounts"][0]["options"] == "spare"
    said = api.post(f"{path}unmark-spare/").json()
    assert (said["usable"], said["spare_at"]) == (False, None)


def test_what_is_gone_or_a_file_system_is_not_given(api, target):
    Reported.objects.filter(pk=target.pk).update(present=False)
    answer = api.post(f"/api/reported-targets/{target.pk}/mark-spare/", {"typed": "sdb"})
    assert "not reported any more" in is_problem(answer, 409)["detail"]
    file = Reported.objects.create(host=target.host, name="/data [ext4]", raw=False)
    answer = api.post(f"/api/reported-targets/{file.pk}/mark-spare/", {"typed": file.name})
    assert "file system" in is_problem(answer, 409)["detail"]


def test_each_target_gets_a_topology_of_its_own(api, target, team):
    long = "/srv/" + "a" * 70
    pks = [target.pk]
    pks += [
        Reported.objects.create(host=target.host, name=f"{long}{n}", raw=False).pk for n in (1, 2)
    ]
    answers = [api.post(f"/api/reported-targets/{pk}/topology/") for pk in pks]
    assert [answer.status_code for answer in answers] == [201] * 3
    stacks = [answer.json()["stack"][0]["options"]["target"] for answer in answers]
    assert stacks == ["sdb", f"{long}1", f"{long}2"]
    again = api.post(f"/api/reported-targets/{target.pk}/topology/")
    assert again.status_code == 200 and again.json() == answers[0].json()
    # one of that name that somebody changed is not taken for it
    Topology.objects.filter(pk=again.json()["id"]).update(stack=[{"kind": "directory"}])
    other = api.post(f"/api/reported-targets/{target.pk}/topology/")
    assert other.status_code == 201 and other.json()["name"].endswith("(2)")


def test_targets_are_found_by_their_host(api, target):
    found = api.get("/api/hosts/", {"access": "dynamo"}).json()["results"]
    assert [row["access"] for row in found] == ["dynamo"]
    rows = api.get("/api/reported-targets/", {"host": found[0]["id"]}).json()["results"]
    assert [row["name"] for row in rows] == ["sdb"]


@pytest.mark.parametrize(
    ("allow", "said"), [(["192.0.2.0/24"], "0.0.0.0:1066"), ([], "")], ids=["on", "off"]
)
def test_where_it_listens(api, settings, allow, said):
    settings.BENCHLAB_DYNAMO_LISTEN, settings.BENCHLAB_DYNAMO_ALLOW = "0.0.0.0:1066", allow
    assert api.get("/api/dynamo-listener/").json() == {"listening": said}


def test_a_program_on_a_host_is_looked_at(api, team, monkeypatch, hosts_at_once):
    host = made.host(team, "lab")
    found = program_check.ProgramReport("/usr/bin/dynamo", 700_000, "0" * 64, "1.1.0", ())
    monkeypatch.setattr(ssh_access, "connect_to_host", lambda host: host)
    monkeypatch.setattr(program_check, "inspect_program", lambda shell, path: found)
    answer = api.post("/api/dynamo-checks/", {"host": host.pk})
    assert answer.status_code == 200, answer.content
    assert (answer.json()["version"], answer.json()["troubles"]) == ("1.1.0", [])

    def lost(host: Host) -> None:
        raise AgentError("nobody answers")

    monkeypatch.setattr(ssh_access, "connect_to_host", lost)
    is_problem(api.post("/api/dynamo-checks/", {"host": host.pk}), 409)


def test_only_a_host_reached_by_ssh_is_looked_at(api, target):
    said = is_problem(api.post("/api/dynamo-checks/", {"host": target.host_id}), 400)
    assert set(said["errors"]) == {"host"}


def test_a_workload_goes_out_as_icf(api, owner, team):
    options = {"block_size": 8192, "outstanding_ios": 1}
    row = Workload.objects.create(
        team=team, name="8 KiB", tool="dynamo", options=options, sweep={"outstanding_ios": [1, 2, 4]}
    )  # fmt: skip
    answer = api.get(f"/api/workloads/{row.pk}/icf/")
    (again,) = icf.read_workloads(answer.content.decode())
    assert dict(again.sweep) == {"outstanding_ios": [1, 2, 4]}
    dd = Workload.objects.create(team=team, name="dd", tool="dd", options={})
    is_problem(api.get(f"/api/workloads/{dd.pk}/icf/"), 409)


def test_results_go_out_as_iometer_writes_them_and_live_ones_as_numbers(api, owner, team):
    used(team, owner, Binary(team=team, sha256="0" * 64))
    attempt = Attempt.objects.get()
    silent = api.get(f"/api/attempts/{attempt.pk}/now/").json()
    assert (silent["phase"], silent["iops"], silent["recent"]) == ("", None, [])
    dynamo_player.publish_line(
        attempt, {"t": 1.0, "phase": "record", "iops": 5.0, "lat.mean": 0.25, "errors": 0}
    )
    said = api.get(f"/api/attempts/{attempt.pk}/now/").json()
    assert (said["phase"], said["iops"], said["mean"], said["share"]) == ("record", 5.0, 0.25, None)
    assert said["recent"] == [
        {"iops": 5.0, "bandwidth": None, "mean": 0.25, "slowest": None, "errors": 0, "t": 1.0}
    ]
    artifacts.store_artifacts(attempt, {"messages.bin": FULL.read_bytes(), "samples": b""})
    Attempt.objects.update(phase="done", outcome="succeeded")
    campaign = attempt.run.campaign_id
    for path in (f"attempts/{attempt.pk}", f"campaigns/{campaign}"):
        answer = api.get(f"/api/{path}/iometer-csv/")
        assert answer["Content-Type"] == "text/csv; charset=utf-8"
        assert answer.content.decode().count("\nWORKER,") == 2
