"""Campaigns that the API makes and starts; and that nothing of another team can be made use of."""

from __future__ import annotations

import pytest
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.hosts import registration, ssh_access
from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Layout
from benchlab.topologies.models import Topology
from tests.api.conftest import DIRECTORY, is_problem, planned
from tests.hosts.conftest import disk, facts

FIO = {"rw": "randread", "size": 2**20, "runtime_s": 5}


@pytest.fixture
def wish(api, ours) -> dict:
    """Body that makes a campaign of two runs."""
    topology = api.post("/api/topologies/", {"name": "dir", "stack": DIRECTORY}).json()
    load = {"name": "w", "tool": "fio", "options": FIO, "sweep": {"iodepth": [1, 8]}}
    workload = api.post("/api/workloads/", load).json()
    return {
        "name": "Deep?", "hosts": [ours.host.pk], "topologies": [topology["id"]],
        "workloads": [workload["id"]], "repeats": 1,
    }  # fmt: skip


@pytest.fixture
def campaign(api, wish) -> Campaign:
    answer = api.post("/api/campaigns/", wish)
    assert answer.status_code == 201, answer.content
    return Campaign.objects.get(pk=answer.json()["id"])


def act(api, campaign, word: str, body: dict | None = None):
    return api.post(f"/api/campaigns/{campaign.pk}/{word}/", body or {})


def test_a_key_and_a_host_are_made(api, team):
    key = api.post("/api/credentials/", {"name": "lab"})
    assert key.status_code == 201 and key.json()["public_key"].startswith("ssh-ed25519 ")
    host = api.post(
        "/api/hosts/", {"name": "a", "address": "192.0.2.1", "credential": key.json()["id"]}
    )
    assert host.status_code == 201, host.content
    said = host.json()
    assert (said["port"], said["user"], said["host_key"]) == (22, "root", "")
    assert Host.objects.get(pk=said["id"]).team == team


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"address": "-oProxyCommand=x"}, "address"),
        ({"user": "a b"}, "user"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"credential": True}, "credential"),
        ({"credential": 1.5}, "credential"),
        ({"credential": 10**30}, "credential"),
        ({"name": "host of Storage"}, ""),
    ],
)
def test_a_wrong_host_is_refused(api, ours, wrong, field):
    given = {"name": "n", "address": "192.0.2.1", "credential": ours.credential.pk} | wrong
    assert is_problem(api.post("/api/hosts/", given), 400)["errors"].keys() == {field}


def test_what_is_read_only_stays(api, ours):
    given = {"name": "n", "address": "192.0.2.1", "credential": ours.credential.pk}
    made = api.post("/api/hosts/", given | {"host_key": "ssh-ed25519 AAAA", "is_local": True})
    assert (made.json()["host_key"], made.json()["is_local"]) == ("", False)


def test_a_key_of_another_team_is_unknown(api, ours, theirs):
    def refused(key: int) -> str:
        given = {"name": "n", "address": "192.0.2.1", "credential": key}
        said = is_problem(api.post("/api/hosts/", given), 400)["errors"]["credential"][0]
        return said.replace(str(key), "ID")

    assert refused(theirs.credential.pk) == refused(999_999)


@pytest.mark.parametrize("noun", ["hosts", "topologies", "workloads"])
def test_a_campaign_takes_nothing_of_another_team(api, wish, theirs, noun):
    row = {"hosts": theirs.host, "topologies": theirs.topology, "workloads": theirs.workload}[noun]
    answer = api.post("/api/campaigns/", wish | {noun: [row.pk]})
    # Where in the list it stood, or the list as a whole.
    assert all(field.startswith(noun) for field in is_problem(answer, 400)["errors"])
    assert "does not exist" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"hosts": []}, "hosts"),
        ({"workloads": 3}, "workloads"),
        ({"repeats": 0}, "repeats"),
        ({"order": "best"}, "order"),
        ({"seed": -1}, "seed"),
        ({"name": ""}, "name"),
        ({"schedulers": "none"}, "schedulers"),
    ],
)
def test_a_wrong_campaign_is_refused(api, wish, wrong, field):
    assert is_problem(api.post("/api/campaigns/", wish | wrong), 400)["errors"].keys() == {field}
    assert not Campaign.objects.filter(name=wish["name"]).exists()


RAW = [{"kind": "raw", "options": {}, "devices": [{"use": "data", "role": "hdd", "count": 1}]}]


@pytest.fixture
def on_a_disk(api, wish) -> dict:
    topology = api.post("/api/topologies/", {"name": "disk", "stack": RAW}).json()
    return wish | {"topologies": [topology["id"]]}


def test_schedulers_are_a_factor(api, on_a_disk):
    answer = api.post(
        "/api/campaigns/", on_a_disk | {"schedulers": ["none", "kyber"], "repeats": 2}
    )
    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert made["schedulers"] == ["none", "kyber"] and made["progress"]["runs"] == 8
    runs = api.get(f"/api/runs/?campaign={made['id']}&scheduler=kyber").json()["results"]
    assert len(runs) == 4 and {run["scheduler"] for run in runs} == {"kyber"}
    assert {run["point"]["scheduler"] for run in runs} == {"kyber"}
    assert all("scheduler" not in run["options"] for run in runs), "the tool is asked for none"
    (layout,) = api.get(f"/api/layouts/?campaign={made['id']}").json()["results"]
    assert layout["schedulers"] == ["none", "kyber"]


@pytest.mark.parametrize(
    "word", ["../x", "none\nkyber", "none; rm", "", "NONE", "$(reboot)", "a{0}"]
)
def test_a_word_that_is_no_scheduler_is_refused_with_those_that_are(api, on_a_disk, word):
    answer = api.post("/api/campaigns/", on_a_disk | {"schedulers": ["none", word]})
    said = is_problem(answer, 400)["detail"]
    assert "mq-deadline, kyber, bfq, cfq, noop, deadline" in said
    assert not Campaign.objects.filter(name=on_a_disk["name"]).exists()


def test_schedulers_that_conflict_are_refused_and_both_are_named(api, wish, on_a_disk):
    tuned = [*RAW, {"kind": "tuning", "options": {"scheduler": "bfq"}, "devices": []}]
    topology = api.post("/api/topologies/", {"name": "tuned", "stack": tuned}).json()["id"]
    asked = {"schedulers": ["none", "kyber"]}
    answer = api.post("/api/campaigns/", on_a_disk | asked | {"topologies": [topology]})
    said = is_problem(answer, 400)["detail"]
    assert "tuned: layer 2 (Tuning) sets the I/O scheduler bfq itself" in said
    assert "schedulers asks for none, kyber" in said
    twice = api.post("/api/campaigns/", on_a_disk | {"schedulers": ["none", "none"]})
    assert "none is listed twice" in is_problem(twice, 400)["detail"]
    folder = api.post("/api/campaigns/", wish | asked)
    assert "dir: it uses no disk" in is_problem(folder, 400)["detail"]


def test_a_stack_that_cannot_stand_is_refused(api):
    stack = [{"kind": "filesystem", "options": {}, "devices": []}]
    said = is_problem(api.post("/api/topologies/", {"name": "t", "stack": stack}), 400)
    assert "Layer 1" in said["errors"]["stack"][0]


@pytest.mark.parametrize("noun", ["topologies", "workloads", "credentials"])
def test_a_name_that_is_taken_is_refused(api, noun):
    bodies: dict[str, dict[str, object]] = {
        "topologies": {"stack": DIRECTORY},
        "workloads": {"tool": "fio", "options": FIO},
    }
    given = {"name": "n", **bodies.get(noun, {})}
    assert api.post(f"/api/{noun}/", given).status_code == 201
    is_problem(api.post(f"/api/{noun}/", given), 400)


def test_options_that_the_tool_does_not_know_are_refused(api):
    given = {"name": "n", "tool": "fio", "options": {"colour": "red"}}
    said = is_problem(api.post("/api/workloads/", given), 400)
    assert "colour" in said["errors"]["options"][0]


def test_a_campaign_is_made_with_its_runs_and_planned(api, campaign, nudges):
    assert campaign.runs.count() == 2
    said = api.get(f"/api/campaigns/{campaign.pk}/").json()
    assert (said["state"], said["progress"]["drafts"]) == ("draft", 1)


@pytest.mark.django_db(transaction=True)
def test_planning_and_starting_reach_the_workers(api, campaign, nudges):
    nudges.clear()
    assert act(api, campaign, "plan").status_code == 200
    layout = planned(campaign)
    act(api, campaign, "start", {"confirmed": {str(layout.pk): layout.plan_fingerprint}})
    assert [name.rpartition(".")[2] for name in nudges] == ["plan_layout", "step_layout"]


def test_starting_wants_the_fingerprint_that_was_seen(api, campaign):
    layout = planned(campaign)
    for confirmed in ({}, {str(layout.pk): "0" * 64}):
        said = is_problem(act(api, campaign, "start", {"confirmed": confirmed}), 409)
        assert "changed since you saw it" in said["detail"]
    right = {str(layout.pk): layout.plan_fingerprint}
    assert act(api, campaign, "start", {"confirmed": right}).json()["state"] == "queued"
    is_problem(act(api, campaign, "start", {"confirmed": right}), 409)


@pytest.mark.parametrize("key", ["x", "-1", "²", "9" * 5000, ""])
def test_starting_wants_ids(api, campaign, key):
    is_problem(act(api, campaign, "start", {"confirmed": {key: "f"}}), 400)


def test_starting_what_is_not_planned_is_refused(api, campaign):
    said = is_problem(act(api, campaign, "start", {"confirmed": {}}), 409)
    assert "not planned yet" in said["detail"]


def test_pause_resume_and_cancel_twice(api, campaign):
    layout = planned(campaign)
    act(api, campaign, "start", {"confirmed": {str(layout.pk): layout.plan_fingerprint}})
    assert act(api, campaign, "pause").json()["state"] == "paused"
    assert act(api, campaign, "resume").json()["state"] == "queued"
    assert act(api, campaign, "cancel").json()["state"] == "cancelling"
    assert act(api, campaign, "cancel").status_code == 200


@pytest.mark.parametrize("word", ["plan", "start", "pause", "resume", "cancel"])
def test_another_team_commands_nothing(api, ours, theirs, word):
    is_problem(act(api, theirs.campaign, word, {"confirmed": {}}), 404)


def test_a_run_is_retried_when_it_is_over(api, other_api, ours, theirs):
    answer = api.post(f"/api/runs/{ours.run.pk}/retry/")
    assert answer.status_code == 201 and ours.run.attempts.count() == 2
    is_problem(api.post(f"/api/runs/{ours.run.pk}/retry/"), 409)
    is_problem(api.post(f"/api/runs/{theirs.run.pk}/retry/"), 404)


def test_only_a_stuck_layout_is_taken_down_again(api, ours, theirs):
    path = f"/api/layouts/{ours.layout.pk}/teardown/"
    for phase, outcome in [("done", "failed"), ("ready", ""), ("waiting", "")]:
        Layout.objects.filter(pk=ours.layout.pk).update(phase=phase, outcome=outcome)
        is_problem(api.post(path), 409)
    Layout.objects.filter(pk=ours.layout.pk).update(phase="stuck", outcome="failed")
    assert api.post(path).json()["phase"] == "tearing_down"
    is_problem(api.post(f"/api/layouts/{theirs.layout.pk}/teardown/"), 404)


def test_a_disk_is_given_away_by_its_serial_and_taken_back(api, ours):
    hosts_facts = facts(disk("sdb", serial="S1"))
    from benchlab.hosts import discovery

    discovery.store_facts(ours.host, hosts_facts)
    device = ours.host.devices.get(name="sdb")
    path = f"/api/devices/{device.pk}"
    is_problem(api.post(f"{path}/mark-spare/", {"typed": "S2", "role": "ssd"}), 409)
    is_problem(api.post(f"{path}/mark-spare/", {"role": "ssd"}), 400)
    marked = api.post(f"{path}/mark-spare/", {"typed": "S1", "role": "ssd"}).json()
    assert (marked["spare"], marked["role"]) == (True, "ssd")
    assert api.post(f"{path}/unmark-spare/").json()["spare"] is False


def test_a_disk_of_another_team_stays(api, ours, theirs):
    body = {"typed": "S1", "role": "ssd"}
    is_problem(api.post(f"/api/devices/{theirs.device.pk}/mark-spare/", body), 404)
    assert not Device.objects.get(pk=theirs.device.pk).spare


def test_a_disk_is_rated_and_nothing_else_of_it_is_changed(api, other_api, ours):
    Device.objects.filter(pk=ours.device.pk).update(rated_bandwidth=10**8)
    path = f"/api/devices/{ours.device.pk}/"
    was = api.get(path).json()
    told = api.patch(path, {"rated_iops": 5000, "spare": not was["spare"], "name": "sdz"}).json()
    assert told == was | {"rated_iops": 5000, "rated_bandwidth": 10**8}
    assert api.patch(path, {"rated_iops": None}).json()["rated_iops"] is None
    for wrong in (0, -1, 1.5, "fast", 10**30):
        is_problem(api.patch(path, {"rated_iops": wrong}), 400)
    is_problem(api.patch(path, {"rating": 5000}), 400)
    is_problem(other_api.patch(path, {"rated_iops": 1}), 404)


def test_confirming_wants_the_offered_key(api, ours):
    path = f"/api/hosts/{ours.host.pk}/confirm-key/"
    is_problem(api.post(path, {"fingerprint": "SHA256:x"}), 409)
    ours.host.offered_key = registration.make_credential(ours.team, "any").public_key
    ours.host.save()
    seen = ssh_access.fingerprints(ours.host)[1]
    is_problem(api.post(path, {"fingerprint": "SHA256:x"}), 409)
    assert api.post(path, {"fingerprint": seen}).json()["host_key"]


@pytest.mark.parametrize("word", ["offer-key", "read-facts"])
def test_a_host_that_does_not_answer(api, ours, word, hosts_at_once):
    Host.objects.update(address="127.0.0.1", port=1)
    assert is_problem(api.post(f"/api/hosts/{ours.host.pk}/{word}/"), 409)


def test_a_cancelled_campaign_says_so(api, ours):
    Campaign.objects.filter(pk=ours.campaign.pk).update(cancelled_at=timezone.now())
    assert api.get(f"/api/campaigns/{ours.campaign.pk}/").json()["state"] == "cancelled"


def test_a_topology_is_kept_complete(api, team):
    answer = api.post("/api/topologies/", {"name": "dir", "stack": DIRECTORY})
    assert answer.status_code == 201, answer.content
    assert answer.json()["stack"] == Topology.objects.get(team=team).stack


def test_a_campaign_in_visits_is_made_and_told(api, wish):
    """The order ABBA: two visits unless told, with their blocks; /api/measurements/ and exports have the column too."""
    row = api.post("/api/topologies/", {"name": "other", "stack": DIRECTORY}).json()
    wish |= {"topologies": [*wish["topologies"], row["id"]], "repeats": 3, "order": "abba"}
    made = api.post("/api/campaigns/", wish).json()
    assert (made["order"], made["visits"]) == ("abba", 2)
    layouts = api.get(f"/api/layouts/?campaign={made['id']}&ordering=id").json()["results"]
    assert [one["visit"] for one in layouts] == [1, 1, 2, 2]
    assert [one["topology"] for one in layouts[:2]] == [one["topology"] for one in layouts[:1:-1]]
    assert {(one["expected_s"], one["build_s"], one["teardown_s"], one["begun_at"]) for one in layouts} == {
        (20.0, None, None, None)
    }  # fmt: skip
    runs = api.get(f"/api/runs/?campaign={made['id']}&visit=2").json()["results"]
    assert {one["repeat"] for one in runs} == {3} and len(runs) == 4
    second = api.get(f"/api/layouts/?campaign={made['id']}&visit=2").json()["results"]
    assert {one["id"] for one in second} == {one["id"] for one in layouts[2:]}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"order": "abba"}, "repeats: 1 cannot be divided over 2 visits of each layout (ABBA)"),
        ({"visits": 2, "repeats": 2}, "more than one visit of each layout needs the order abba"),
        ({"order": "abba", "visits": 1}, "builds each layout at least 2 times"),
        ({"order": "baab"}, "is not a valid choice"),
        ({"visits": 0}, "greater than or equal to 1"),
    ],
)
def test_visits_that_cannot_be_are_refused_in_words(api, wish, wrong, says):
    answer = api.post("/api/campaigns/", wish | wrong)
    assert says in str(is_problem(answer, 400)["errors"])
    assert not Campaign.objects.filter(name="Deep?").exists()


def test_without_a_word_each_layout_is_built_once(api, campaign):
    told = api.get(f"/api/campaigns/{campaign.pk}/").json()
    assert (told["order"], told["visits"]) == ("random_blocks", 1)
