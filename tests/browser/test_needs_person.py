"""The cards that ask a person, in a real browser: a step by hand, and missing packages; light, dark and on a phone."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from agents.drivers import packages, registry
from agents.ssh.keys import generate_key_pair
from benchlab.campaigns.models import Campaign
from benchlab.hosts import discovery
from benchlab.hosts.models import Credential, Host, PackageInstall
from benchlab.runs.models import Layout
from benchlab.topologies.models import Topology
from tests.agents.made_up import host as made_up_host
from tests.browser.person import Person

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
CACHE = """In the cloud's portal set the host caching of data disk 1 to None.
Then reboot the machine, and wait until it is back."""
TROUBLE = (
    "cat /sys/block/sdc/queue/write_cache did not print 'write through'; it printed: write back"
)
HOST_KEY = generate_key_pair("test")[1]
MD = [{"kind": "md", "options": {}, "devices": [{"use": "data", "role": "ssd", "count": 2}]}]
BY_HAND = [{"kind": "manual", "options": {"instructions": CACHE}, "devices": []}]


@pytest.fixture
def lab(team) -> Host:
    credential = Credential.objects.create(
        team=team, name="key", public_key="ssh-ed25519 AAAA", private_key=b"x"
    )
    host = Host.objects.create(
        team=team, name="lab1", address="192.0.2.1", credential=credential, host_key=HOST_KEY
    )
    discovery.store_facts(host, made_up_host(tools={"fio": "fio-3.36"}))
    return host


@pytest.fixture
def person(chromium, live_server, user):
    found = Person(chromium, live_server.url)
    found.log_in("alice", "alice-password")
    yield found
    found.close()


def layout(team, user, host, name, stack, **fields) -> Layout:
    topology = Topology.objects.create(team=team, name=name, stack=stack)
    campaign = Campaign.objects.create(team=team, name=name, seed=1, created_by=user)
    return Layout.objects.create(
        campaign=campaign, host=host, topology=topology, stack=stack, **fields
    )


def test_a_step_by_hand(person, team, user, lab):
    row = layout(
        team, user, lab, "Host cache off", BY_HAND,
        phase="provisioning", asked=1, needs_person=CACHE, person_trouble=TROUBLE,
    )  # fmt: skip
    person.page.goto("/")
    assert person.page.get_by_text("host caching of data disk 1").is_visible()
    person.look("needs-person-home")
    person.page.goto(f"/campaigns/{row.campaign_id}/")
    person.look("needs-person")
    person.press("Done")
    expect(person.page.get_by_text("Reported as done")).to_be_visible()
    assert person.complaints == []


def test_missing_packages(person, team, user, lab):
    facts = discovery.facts_of(lab.snapshots.first())
    error = packages.missing_programs(registry.layer("md").NEEDS, facts).sentence("lab1")
    row = layout(team, user, lab, "Mirror", MD, planned_at=timezone.now(), plan_error=error)
    person.page.goto(f"/campaigns/{row.campaign_id}/")
    person.look("missing-packages-plan")
    person.page.goto(f"/hosts/{lab.pk}/")
    person.look("missing-packages-host")
    person.page.goto(f"/hosts/{lab.pk}/install/?package=mdadm")
    person.look("missing-packages-confirm")
    failed = PackageInstall.objects.create(
        host=lab, argv=["apt-get", "install", "-y", "mdadm"], by=user, ended_at=timezone.now(),
        exit_code=100, output="E: Could not get lock /var/lib/dpkg/lock-frontend.",
        trouble="It ended with exit code 100 (exited). " + packages.why("Could not get lock"),
    )  # fmt: skip
    person.page.goto(f"/hosts/{lab.pk}/install/{failed.pk}/")
    person.look("missing-packages-failed")
    assert person.complaints == []
