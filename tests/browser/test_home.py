"""Home in a browser: what runs, results as small charts, disks as blocks; light, dark, on a phone, without script."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from benchlab.hosts.models import Device
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.runs.states import LayoutPhase, Outcome
from tests.browser.person import Person
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SAYS = ("Make the physical volumes", "Make the striped volume", "Make the file system")


@pytest.fixture
def lab(team, user):
    """Three campaigns that are over, one that builds; two hosts with disks of every kind."""
    one, two = made.host(team, "r720xd"), made.host(team, "practice")
    load = made.workload(team)
    compared = made.campaign(team, "How wide a stripe?")
    for name, top in (
        ("LVM stripe of 4 HDD, 64 KiB", 9000.0),
        ("raw SSD", 90000.0),
        ("md RAID 10", 20000.0),
    ):
        made.swept(compared, one, made.topology(team, name), load, top=top)
    made.swept(made.campaign(team, "One SSD alone"), one, made.topology(team, "raw SSD"), load)
    plain = made.campaign(team, "Streams", repeats=1)
    for name, top in (("xfs", 120.0), ("zpool of 4", 90.0)):
        layout = made.done_layout(plain, one, made.topology(team, name))
        made.finished(plain, layout, made.workload(team, "write 1 MiB"), None, 1, top)
    gone = made.campaign(team, "It had no luck", repeats=1)
    layout = made.done_layout(gone, two, made.topology(team, "raw SSD"))
    attempt = made.finished(gone, layout, load, 1, 1, 1.0)
    Attempt.objects.filter(pk=attempt.pk).update(outcome=Outcome.FAILED, reason="tool_failed")
    Layout.objects.update(ended_at=timezone.now())
    for number in range(12):
        disk(one, f"sd{chr(98 + number)}", spare=True, present=number != 9)
    disk(one, "nvme0n1", spare=True, role="nvme")
    disk(one, "sda", role="", in_use="mounted on /")
    disk(two, "sdb", spare=True, role="ssd")
    disk(two, "sdc")
    building(
        made.campaign(team, "Does an SSD cache help a stripe?"),
        two,
        made.topology(team, "md RAID 10"),
    )


def disk(host, name: str, **fields) -> Device:
    told = {"role": "hdd", "size": 4 << 40, **fields}
    given = {"spare_size": told["size"]} if told.get("spare") else {}
    return Device.objects.create(
        host=host, identity=f"serial:{host}{name}", name=name, **told, **given
    )


def building(campaign, host, topology) -> None:
    steps = [{"says": says, "argv": ["true"]} for says in SAYS]
    layout = Layout.objects.create(
        campaign=campaign,
        host=host,
        topology=topology,
        stack=[],
        phase=LayoutPhase.PROVISIONING,
        plan={
            "layers": [{"steps": steps}],
            "claims": [{"identity": f"serial:{host}sdb", "node": "/dev/sdb"}],
        },
        begun_at=timezone.now(),
    )
    Attempt.objects.create(
        run=made.run(campaign, layout, made.workload(host.team), 1, 1), layout=layout
    )
    StepLog.objects.create(
        layout=layout, kind="apply", argv=["true"], says=SAYS[0], ended_at=timezone.now()
    )
    StepLog.objects.create(layout=layout, kind="apply", argv=["true"], says=SAYS[1])


@pytest.fixture
def person(chromium, live_server, user, lab):
    one = Person(chromium, live_server.url)
    one.log_in("alice", "alice-password")
    one.page.wait_for_url("**/")
    yield one
    one.close()


@pytest.mark.quick
def test_one_glance_tells_what_runs_what_came_out_and_which_disks_are_free(person):
    page = person.page
    expect(page.get_by_text("step 2 of 3: Make the striped volume")).to_be_visible()
    expect(page.locator(".latest svg[role=img]")).to_have_count(2)
    expect(page.locator(".latest .bars")).to_have_count(1)
    expect(page.locator(".fleet .disk")).to_have_count(16)
    person.look("home-lab")
    page.set_viewport_size({"width": 1920, "height": 1080})
    person.picture("home-lab-wall")
    page.locator(".latest h3 a", has_text="raw SSD").first.click()
    page.wait_for_url("**/campaigns/*/")
    assert person.complaints == [], "\n".join(person.complaints)


def test_home_without_script(person, chromium, live_server):
    plain = Person(chromium, live_server.url, javascript=False)
    plain.page.context.add_cookies(person.page.context.cookies())
    plain.page.goto("/")
    expect(plain.page.locator(".latest svg[role=img]")).to_have_count(2)
    plain.look("home-lab")
    plain.close()
    assert plain.complaints == []
