"""Pages' deeds on hosts, keys, topologies and .icf files, by API too, with the same words when it cannot be."""

from __future__ import annotations

import pytest

from agents.dynamo import icf
from agents.ssh import keys, shell
from benchlab import vault
from benchlab.audit.chain import add_entry
from benchlab.campaigns.models import Workload
from benchlab.hosts import registration
from benchlab.hosts.models import Credential, Host
from benchlab.runs.models import Layout
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from benchlab.topologies.models import Topology
from tests.api.conftest import DIRECTORY, client_of, is_problem


@pytest.fixture
def spare_host(ours) -> Host:
    """One that nothing was run on."""
    return registration.add_host(ours.team, "unused", "192.0.2.7", ours.credential)


@pytest.fixture
def file() -> str:
    options = {"block_size": 8192, "read_percent": 50, "outstanding_ios": 1, "size": 1 << 30}
    found = [icf.Workload(name, options, {"outstanding_ios": [1, 2, 4]}) for name in ("a", "b")]
    return icf.write_icf(icf.build_config(found))


def test_a_private_key_is_taken(api, team):
    private, public = keys.generate_key_pair("mine")
    answer = api.post("/api/credentials/", {"name": "brought", "private_key": private})
    assert answer.status_code == 201, answer.content
    assert answer.json()["uploaded"] and "private_key" not in answer.json()
    row = Credential.objects.get(name="brought", team=team)
    assert row.public_key.split()[1] == public.split()[1]
    assert vault.decrypt(row.private_key).strip() == private.strip()


@pytest.mark.parametrize(
    ("text", "says"), [("nonsense", "cannot be read"), ("x" * 70_000, "65536"), ("", "blank")]
)
def test_what_is_no_private_key_is_refused(api, team, text, says):
    sent = {"name": "brought", "private_key": text}
    assert says in is_problem(api.post("/api/credentials/", sent), 400)["detail"]
    assert not Credential.objects.filter(name="brought").exists()


def test_a_key_is_deleted_unless_hosts_use_it(api, ours, theirs):
    free = registration.make_credential(ours.team, "free")
    assert api.delete(f"/api/credentials/{free.pk}/").status_code == 204
    assert not Credential.objects.filter(pk=free.pk).exists()
    said = is_problem(api.delete(f"/api/credentials/{ours.credential.pk}/"), 409)
    assert "is in use by" in said["detail"]
    is_problem(api.delete(f"/api/credentials/{theirs.credential.pk}/"), 404)


def test_a_host_is_changed_and_keeps_its_pinned_key(api, ours, spare_host):
    Host.objects.filter(pk=spare_host.pk).update(host_key="ssh-ed25519 AAAA")
    url = f"/api/hosts/{spare_host.pk}/"
    told = api.patch(url, {"address": "192.0.2.8", "port": 2222, "notes": "moved"}).json()
    assert (told["name"], told["address"], told["port"]) == ("unused", "192.0.2.8", 2222)
    spare_host.refresh_from_db()
    assert (spare_host.notes, spare_host.host_key) == ("moved", "ssh-ed25519 AAAA")
    assert api.patch(url, told).status_code == 200  # as it was told: what is read only stays


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"address": "-oProxyCommand=x"}, "address"),
        ({"credential": None}, "credential"),
        ({"name": "host of Storage"}, ""),
        ({"user": "a b"}, "user"),
    ],
)
def test_a_wrong_change_of_a_host_is_refused(api, ours, spare_host, wrong, field):
    said = is_problem(api.patch(f"/api/hosts/{spare_host.pk}/", wrong), 400)
    assert said["errors"].keys() == {field}
    spare_host.refresh_from_db()
    assert (spare_host.name, spare_host.address) == ("unused", "192.0.2.7")


def test_neither_host_nor_topology_changes_teams(api, user, ours, spare_host, theirs):
    Membership.objects.create(user=user, team=theirs.team, role=Role.OWNER)
    for noun, row in (("hosts", spare_host), ("topologies", ours.topology)):
        said = is_problem(api.patch(f"/api/{noun}/{row.pk}/", {"team": theirs.team.pk}), 400)
        assert said["errors"].keys() == {"team"}
    foreign = {"credential": theirs.credential.pk}
    said = is_problem(api.patch(f"/api/hosts/{spare_host.pk}/", foreign), 400)
    assert "another team" in said["errors"]["credential"][0]


def test_a_host_is_removed_unless_results_need_it(api, ours, spare_host, theirs):
    assert api.delete(f"/api/hosts/{spare_host.pk}/").status_code == 204
    said = is_problem(api.delete(f"/api/hosts/{ours.host.pk}/"), 409)
    assert "has runs; their results need it" in said["detail"]
    is_problem(api.delete(f"/api/hosts/{theirs.host.pk}/"), 404)
    assert Layout.objects.filter(host=ours.host).exists()


def test_a_changed_key_is_turned_down_or_confirmed(api, ours, spare_host):
    old, new = (registration.make_credential(ours.team, name).public_key for name in ("old", "new"))
    doubt = {"host_key": old, "offered_key": new, "trouble": "host_key_changed"}
    url = f"/api/hosts/{spare_host.pk}"
    Host.objects.filter(pk=spare_host.pk).update(**doubt)
    kept = api.post(f"{url}/keep-key/").json()
    assert (kept["host_key"], kept["offered_key"], kept["trouble"]) == (old, "", "")
    Host.objects.filter(pk=spare_host.pk).update(**doubt)
    taken = api.post(f"{url}/confirm-key/", {"fingerprint": shell.fingerprint(new)}).json()
    assert (taken["host_key"], taken["offered_key"]) == (new, "")


def test_a_topology_is_edited(api, ours):
    made = api.post("/api/topologies/", {"name": "dir", "stack": DIRECTORY}).json()
    url = f"/api/topologies/{made['id']}/"
    told = api.patch(url, {"description": "elsewhere"}).json()
    assert (told["name"], told["description"], told["stack"]) == ("dir", "elsewhere", made["stack"])
    other = [{"kind": "directory", "options": {"path": "/srv/other"}}]
    assert api.patch(url, {"stack": other}).json()["stack"][0]["options"]["path"] == "/srv/other"
    assert api.patch(url, told | {"name": "d2"}).json()["name"] == "d2"
    assert Topology.objects.get(pk=made["id"]).description == "elsewhere"


def test_a_wrong_edit_of_a_topology_changes_nothing(api, ours, theirs):
    made = api.post("/api/topologies/", {"name": "dir", "stack": DIRECTORY}).json()
    url = f"/api/topologies/{made['id']}/"
    wrong = [{"kind": "filesystem", "options": {}, "devices": []}]
    assert "Layer 1" in is_problem(api.patch(url, {"stack": wrong}), 400)["errors"]["stack"][0]
    is_problem(api.patch(url, {"name": ours.topology.name}), 400)
    assert api.get(url).json() == made
    is_problem(api.patch(f"/api/topologies/{theirs.topology.pk}/", {"name": "mine"}), 404)


def test_an_icf_file_is_shown_and_then_taken(api, team, file):
    seen = api.post("/api/icf-files/", {"text": file})
    assert seen.status_code == 200, seen.content
    found = seen.json()["found"]
    assert [one["name"] for one in found] == [one.name for one in icf.read_workloads(file)]
    assert seen.json()["made"] == [] and not Workload.objects.filter(team=team).exists()
    answer = api.post("/api/icf-files/", {"text": file, "take": [found[0]["number"]]})
    assert answer.status_code == 201, answer.content
    (made,) = answer.json()["made"]
    assert (made["tool"], made["name"]) == ("dynamo", found[0]["name"])
    assert Workload.objects.get(team=team).options == made["options"]


def test_an_icf_file_is_taken_as_a_whole_or_not(api, team, file):
    is_problem(api.post("/api/icf-files/", {"text": "no such file"}), 400)
    assert (
        "take"
        in is_problem(api.post("/api/icf-files/", {"text": file, "take": [99]}), 400)["errors"]
    )
    assert api.post("/api/icf-files/", {"text": file, "take": [0]}).status_code == 201
    said = is_problem(api.post("/api/icf-files/", {"text": file, "take": [0]}), 400)
    assert "already" in said["detail"] or "exists" in said["detail"]
    assert Workload.objects.filter(team=team).count() == 1


def test_owners_read_the_audit_log(api, user, ours, theirs):
    add_entry(
        "host.create", actor="someone", team_id=ours.team.pk, subject="host 7", outcome="refused"
    )
    add_entry("login", actor="anyone")
    told = api.get("/api/audit/?outcome=refused").json()["results"]
    assert [(one["actor"], one["subject"]) for one in told] == [("someone", "host 7")]
    every = api.get("/api/audit/").json()["results"]
    assert {one["team_id"] for one in every} == {ours.team.pk}
    assert is_problem(api.get("/api/audit/?since=yesterday"), 400)["errors"].keys() == {"since"}
    Membership.objects.filter(user=user).update(role=Role.OPERATOR)
    is_problem(client_of(user).get("/api/audit/"), 403)
