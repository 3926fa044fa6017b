"""The plan of a campaign, of real drivers: picture, losses, the typed word, and the fingerprint that pins it."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from agents.contracts import AgentError
from agents.facts.model import HostFacts, Signature
from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine.checks import planning, previews
from benchlab.engine.new_runs import create_campaign
from benchlab.engine.phases import provision
from benchlab.hosts import discovery, registration
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.runs.models import Layout
from benchlab.team import tokens
from benchlab.team.roles import Role
from benchlab.topologies import plan_view
from benchlab.topologies.models import Topology
from benchlab.workers import messages
from tests.topologies.plans import FAST, SLOW, cached, layer, many_disks

pytestmark = pytest.mark.django_db
HOST = many_disks()
PHRASE = "destroy 13 disks on lab1"


@pytest.fixture(autouse=True)
def nudges(monkeypatch, hosts_at_once) -> None:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


class Machine:
    """Host in the place of SSH: its facts, as a test sets them."""

    def __init__(self) -> None:
        self.facts: HostFacts = HOST

    def read(self, host: Host, shell: object = None) -> FactSnapshot:
        return discovery.store_facts(host, self.facts)


@pytest.fixture
def machine(monkeypatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(discovery, "read_facts", found.read)
    return found


@pytest.fixture
def lab(team, machine) -> Host:
    key = registration.make_credential(team, "lab")
    host = registration.add_host(team, "lab1", "192.0.2.1", key)
    machine.read(host)
    for name in (*SLOW, *FAST):
        row = host.devices.get(name=name)
        row.spare, row.role = True, "hdd" if name in SLOW else "ssd"
        row.spare_size, row.spare_model = row.size, row.model
        row.save()
    return host


@pytest.fixture
def make(team, user, lab):
    def make(stack, **told) -> Campaign:
        topology = Topology.objects.create(
            team=team, name=f"t{Topology.objects.count()}", stack=stack
        )
        workload, _ = Workload.objects.get_or_create(team=team, name="w", tool="dd", options={})
        made = create_campaign(
            team=team, user=user, name="c", question="", hosts=[lab], topologies=[topology],
            workloads=[workload], repeats=1, order="as_written", seed=1, **told,
        )  # fmt: skip
        preview(made)
        return made

    return make


def preview(campaign: Campaign) -> Layout:
    layout = campaign.layouts.get()
    previews.plan_draft(layout.pk)
    layout.refresh_from_db()
    assert layout.plan_error == ""
    return layout


def page(web, campaign: Campaign) -> str:
    return web.get(reverse("campaign-detail", args=[campaign.pk])).text


def start(web, campaign: Campaign, typed: str, fingerprint: str | None = None) -> str:
    layout = campaign.layouts.get()
    sent = {f"layout-{layout.pk}": fingerprint or layout.plan_fingerprint, "typed": typed}
    return web.post(reverse("campaign-start", args=[campaign.pk]), sent, follow=True).text


def test_the_plan_is_drawn_listed_and_folded(web, make):
    text = page(web, make(cached()))
    assert text.count('<g class="box disk">') == 13
    assert 'role="img"' in text and "<desc" in text and " style=" not in text
    assert "Everything on 13 disks will be destroyed" in text and "13 GiB" in text
    for words in ("WD-01", "NV-0", "sdb: ext4 &#x27;home&#x27;", "(12 times, 12 commands)"):
        assert words in text
    assert f'<q class="phrase">{PHRASE}</q>' in text


def test_schedulers_are_told_before_anything_runs_and_pinned(web, make, machine):
    queue = {"scheduler": "[mq-deadline] none", "nr_requests": "64"}
    machine.facts = replace(HOST, devices=tuple(replace(one, queue=queue) for one in HOST.devices))
    plain, campaign = make(cached(2)), make(cached(2), schedulers=["none", "mq-deadline"])
    text = unescape(page(web, campaign))
    assert (
        "<strong>Before each run:</strong> set the I/O scheduler of nvme0n1, sdb, sdc to none / mq-deadline; "
        "put back afterwards, also when it is cancelled or fails." in text
    )
    assert "Before each run, the one that it asks for" in text
    assert "set none /sys/block/nvme0n1/queue/scheduler /sys/block/sdb/queue/scheduler" in text
    assert "Restore the previous I/O scheduler" in text
    assert "I/O scheduler" not in page(web, plain)
    layout = campaign.layouts.get()
    stored = layout.plan_fingerprint
    layout.schedulers = ["none"]
    layout.save()
    previews.plan_draft(layout.pk)
    layout.refresh_from_db()
    assert layout.plan_fingerprint != stored


@pytest.mark.parametrize(
    "typed", ["", "yes", "destroy 12 disks on lab1", "destroy 13 disks on lab2"]
)
def test_nothing_starts_unless_the_loss_is_named(web, make, typed):
    campaign = make(cached())
    text = start(web, campaign, typed)
    assert "Nothing was done. " in text and campaign.layouts.get().phase == "draft"
    assert Entry.objects.get(action="campaign-start").outcome == "refused"
    # At the field, with what was typed; and once: who comes again finds the field empty.
    (field,) = re.findall('<input type="text" id="id_typed"[^>]*>', text)
    assert f'value="{typed}" aria-invalid="true" aria-describedby="id_typed_error"' in field
    assert "id_typed_error" not in page(web, campaign)


def test_an_address_does_not_fill_the_phrase_in(web, make):
    """Else a link would leave one click between somebody and the disks."""
    campaign = make(cached())
    text = web.get(reverse("campaign-detail", args=[campaign.pk]), {"typed": PHRASE}).text
    (field,) = re.findall('<input type="text" id="id_typed"[^>]*>', text)
    assert "value=" not in field


def test_what_was_typed_for_another_plan_is_not_shown(web, make):
    first, second = make(cached()), make(cached(2))
    start(web, second, "yes")  # followed to its own page, which told it
    web.post(reverse("campaign-start", args=[second.pk]), {"typed": "yes"})
    assert "id_typed_error" not in page(web, first)
    assert "id_typed_error" in page(web, second)


def test_the_summary_tells_marks_disks_bytes_and_time(web, make):
    campaign = make(cached(2))
    campaign.runs.update(expected_s=600, expected_writes=3 << 30)
    campaign.layouts.update(expected_s=90)
    text = " ".join(page(web, campaign).split())
    for words in (
        '<dt>To erase</dt><dd class="remove">− 2</dd>',
        '<dt>Destroyed</dt><dd class="remove">3 disks <small>3 GiB</small></dd>',
        "<dt>Taken down after</dt><dd>3 <small>layers, disks proven blank</small></dd>",
        "<dt>Written by 1 run</dt><dd>3 GiB </dd>",
        "<dd>11 min 30 s <small>1 min 30 s of it building and taking down</small></dd>",
    ):
        assert words in text
    campaign.runs.update(expected_writes=None)
    assert "<dd> <small>what 1 run cannot tell</small></dd>" in " ".join(
        page(web, campaign).split()
    )


def test_the_teardown_is_shown_with_the_plan(web, make):
    text = page(web, make(cached(2)))
    told = text.partition("Taken down afterwards")[2].partition("</details>")[0]
    for words in ("Take down: File system", "Take down: LVM cache", "prove 3 disks blank"):
        assert words in told
    assert "/mnt/benchlab/bl" in told and 'class="copy"' not in told


def test_a_command_is_whole_without_script_and_can_be_copied_with_it(web, make):
    campaign = make(cached(2))
    text = page(web, campaign)
    rows = re.findall('<code>([^<]*)</code><button[^>]*aria-label="Copy the command: ', text)
    plan = plan_view.view_plan(planning.stored_plan(campaign.layouts.get()), None)
    assert [unescape(row) for row in rows] == [row.text for row in plan.commands]


def test_it_starts_when_the_loss_is_named(web, make):
    campaign = make(cached())
    assert "Started." in start(web, campaign, f" {PHRASE} ")
    layout = campaign.layouts.get()
    assert (layout.phase, layout.confirmed_fingerprint) == ("waiting", layout.plan_fingerprint)


def test_what_destroys_nothing_needs_no_word(web, make):
    campaign = make([layer("directory", {"path": "/srv/scratch"})])
    text = page(web, campaign)
    assert "No disk is touched." in text and "id_typed" not in text
    assert "Started." in start(web, campaign, "")


def test_a_word_is_needed_when_the_facts_of_the_plan_are_gone(web, make):
    campaign = make(cached())
    campaign.layouts.update(facts_planned=None)
    assert "Nothing was done" in start(web, campaign, "")
    assert "not known any more" in page(web, campaign)


def changed(**fields) -> HostFacts:
    """The host after something happened to its first slow disk."""
    devices = [replace(d, **fields) if d.name == "sdb" else d for d in HOST.devices]
    return replace(HOST, devices=tuple(devices))


NEW_FILES = {"signatures": (Signature("xfs", 0, "precious"),)}


def test_a_plan_is_stale_once_a_disk_has_changed(web, make, machine):
    campaign = make(cached())
    seen = campaign.layouts.get().plan_fingerprint
    machine.facts = changed(**NEW_FILES)
    assert preview(campaign).plan_fingerprint != seen
    assert "changed since you saw it" in start(web, campaign, PHRASE, seen)
    assert campaign.layouts.get().phase == "draft"
    assert "sdb: xfs &#x27;precious&#x27;" in page(web, campaign)


def test_the_api_refuses_a_stale_fingerprint_and_takes_the_new_one(user, make, machine):
    campaign = make(cached())
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Token {tokens.create_token(user, 'test', Role.OWNER)[1]}")
    layout = campaign.layouts.get()
    machine.facts = changed(**NEW_FILES)
    new = preview(campaign).plan_fingerprint
    path = f"/api/campaigns/{campaign.pk}/apply/"

    def apply(fingerprint: str):
        sent = {"confirmed": {str(layout.pk): fingerprint}}
        return api.post(path, sent, format="json")

    refused = apply(layout.plan_fingerprint)
    assert refused.status_code == 409 and "changed since you saw it" in refused.json()["detail"]
    assert apply(new).json()["state"] == "queued"


def test_it_is_looked_at_again_right_before_anything_is_touched(web, make, machine):
    campaign = make(cached())
    start(web, campaign, PHRASE)
    machine.facts = changed(**NEW_FILES)
    with pytest.raises(AgentError, match="changed after the plan was confirmed") as raised:
        provision._confirmed_plan(campaign.layouts.get(), None)
    assert raised.value.reason == "plan_stale"


def test_a_dry_run_shows_all_this_without_a_campaign(web, make, lab, team):
    topology = Topology.objects.create(team=team, name="Cached", stack=cached())
    assert "Plan on a host…" in web.get(reverse("topology-detail", args=[topology.pk])).text
    path = reverse("topology-plan", args=[topology.pk])
    assert "Show the plan" in web.get(path).text
    text = web.post(path, {"host": lab.pk}, follow=True).text
    assert text.count('<g class="box disk">') == 13 and "(12 times, 12 commands)" in text
    assert "Everything on 13 disks" in text and "id_typed" not in text
    assert not Layout.objects.exists() and not Campaign.objects.exists()


def test_a_dry_run_says_what_does_not_fit(web, lab, team):
    topology = Topology.objects.create(team=team, name="Big", stack=cached(40))
    path = reverse("topology-plan", args=[topology.pk])
    text = web.post(path, {"host": lab.pk}, follow=True).text
    assert "It cannot be built" in text and "needs 40 hdd" in text


def test_a_dry_run_is_for_ones_own(web, other_web, lab, team, other_user):
    topology = Topology.objects.create(team=team, name="Cached", stack=cached())
    path = reverse("topology-plan", args=[topology.pk])
    assert other_web.get(path).status_code == 404
    theirs = Topology.objects.create(team=other_user.teams.get(), name="x", stack=cached())
    answer = other_web.post(reverse("topology-plan", args=[theirs.pk]), {"host": lab.pk})
    assert answer.status_code == 200 and "run" not in answer.context


def test_the_api_plans_dry(user, other_user, lab, team):
    api = APIClient()
    api.force_authenticate(user)
    topology = Topology.objects.create(team=team, name="Cached", stack=cached())
    path = f"/api/topologies/{topology.pk}/plan/"
    told = api.post(path, {"host": lab.pk}, format="json").json()
    assert told["error"] == "" and len(told["fingerprint"]) == 64
    first, disks = told["commands"][0], [f"/dev/sd{letter}" for letter in "bcdefghijklm"]
    assert (first["mark"], first["argv"]) == ("-", ["wipefs", "--all", *disks])
    assert first["says"] == f"Erase the signatures of {', '.join(disks)}"
    assert (len(told["destroys"]), told["destroys"][0]["serial"]) == (13, "NV-0")
    assert told["snapshot"] == lab.snapshots.first().pk and told["says"].startswith("From the")
    again = api.post(path, {"host": lab.pk}, format="json").json()
    assert again["fingerprint"] == told["fingerprint"]
    topology.stack = cached(40)
    topology.save()
    told = api.post(path, {"host": lab.pk}, format="json").json()
    assert "needs 40 hdd" in told["error"] and told["commands"] == told["destroys"] == []
    assert api.post(path, {}, format="json").status_code == 400
    api.force_authenticate(other_user)
    assert api.post(path, {"host": lab.pk}, format="json").status_code == 404


def test_it_says_as_whom_each_tool_runs(web, make, machine):
    """As a user of its own where the host can do that and the tool does not need root; else why not."""
    assert "Runs as root: this host cannot confine it" in unescape(page(web, make(cached())))
    machine.facts = replace(HOST, tools={**HOST.tools, discovery.CONFINEMENT.program: ""})
    campaign = make(cached())
    assert "Runs as a user of its own without privileges" in page(web, campaign)
    campaign.runs.update(options={"iflag": ["noatime"]})
    assert "Runs as root: only root may open dd's source" in unescape(page(web, campaign))
