"""A layout that waits for a person, through the whole engine, on this machine. No disk is touched."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.urls import reverse

from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine import commands
from benchlab.engine import tasks as engine
from benchlab.engine.new_runs import create_campaign
from benchlab.runs import progress
from benchlab.runs.models import Layout, StepLog
from benchlab.topologies.models import Topology
from tests.runs import drive, local_host

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_host.served(tmp_path_factory.mktemp("state")) as found:
        yield found


@pytest.fixture
def make(server, team, user, tmp_path):
    """A campaign of one short dd on manual layers below and above a scratch directory."""
    tmp_path.chmod(0o755)
    here = local_host.register(team, *server)
    scratch = {"kind": "directory", "options": {"path": str(tmp_path / "scratch")}, "devices": []}
    workload = Workload.objects.create(
        team=team, name="dd", tool="dd", options={"block_size": 65536, "count": 4}, sweep={}
    )

    def build(below: Sequence[dict] = (), above: Sequence[dict] = ()) -> Campaign:
        layers = [*below, scratch, *above]
        stack = [{"devices": [], **layer} for layer in layers]
        topology = Topology.objects.create(team=team, name="by hand", stack=stack)
        campaign = create_campaign(
            team=team, user=user, name="first", question="", hosts=[here], topologies=[topology],
            workloads=[workload], repeats=1, order="random_blocks", seed=7,
        )  # fmt: skip
        drive.plan_and_start(campaign)
        return campaign

    return build


def manual(**options) -> dict:
    return {"kind": "manual", "options": {"instructions": "Turn the knob.", **options}}


def waiting(campaign: Campaign) -> Layout:
    """Step until it waits for a person."""
    asked = campaign.layouts.exclude(needs_person="").filter(person_said_at=None)
    drive.until(campaign, asked.exists)
    return campaign.layouts.get()


def done(layout: Layout) -> None:
    commands.report_manual_step(layout, layout.person_key, "alice")
    engine.step_until_waiting(layout.pk)
    layout.refresh_from_db()


def test_it_waits_below_and_above_and_to_take_back(make, web):
    campaign = make([manual(undo_instructions="Turn it back.")], [manual(instructions="Louder.")])
    layout = waiting(campaign)
    assert (layout.needs_person, layout.phase, layout.built) == (
        "Turn the knob.",
        "provisioning",
        0,
    )
    assert not layout.steps.exists()
    engine.step_until_waiting(layout.pk)
    assert waiting(campaign).asked == 1, "stepping again changes nothing"
    assert progress.campaign_progress(campaign).state == progress.State.MANUAL_STEP
    for url in (reverse("home"), reverse("campaign-detail", args=[campaign.pk])):
        assert "Turn the knob." in web.get(url).content.decode()
    done(layout)
    assert (layout.needs_person, layout.built, layout.asked) == ("Louder.", 2, 3)
    web.post(reverse("layout-person-done", args=[layout.pk]), {"key": layout.person_key})
    drive.until(campaign, lambda: campaign.layouts.get().phase == "tearing_down")
    layout = waiting(campaign)
    assert layout.needs_person == "Turn it back."
    assert StepLog.objects.filter(kind="teardown", exit_code=0).exists(), "the rest is down first"
    done(layout)
    assert (layout.phase, layout.outcome, layout.needs_person) == ("done", "succeeded", "")
    said = layout.transitions.filter(reason="alice says that it is done")
    assert said.count() == 3


def test_a_check_that_disagrees_says_why_and_waits_on(make):
    """/proc/sys/kernel/hostname does not hold what is asked for."""
    check = ["grep", "nonsense", "/proc/sys/kernel/ostype"]
    layout = waiting(make([manual(check=check)]))
    done(layout)
    assert layout.needs_person and layout.person_said_at is None
    assert "grep nonsense /proc/sys/kernel/ostype ended with exit code 1" in layout.person_trouble
    assert layout.steps.get().kind == "check"


def test_a_check_whose_output_lacks_the_text_says_so(make):
    layout = waiting(make([manual(check=["uname", "-s"], expect="Plan 9")]))
    done(layout)
    assert layout.person_trouble == "uname -s did not print 'Plan 9'; it printed: Linux"


def test_a_check_that_agrees_lets_it_go_on(make):
    campaign = make([manual(check=["uname", "-s"], expect="Linux")])
    done(waiting(campaign))
    drive.to_the_end(campaign)
    assert campaign.layouts.get().outcome == "succeeded"


def test_a_word_about_another_wait_is_not_taken(make):
    layout = waiting(make([manual()]))
    with pytest.raises(commands.CommandError, match="does not wait for that any more"):
        commands.report_manual_step(layout, "tearing_down-1", "alice")
    commands.report_manual_step(layout, layout.person_key, "alice")
    with pytest.raises(commands.CommandError, match="does not wait"):
        commands.report_manual_step(layout, layout.person_key, "alice")


def test_cancelled_while_it_waits_it_asks_to_take_back_what_was_asked(make, tmp_path):
    campaign = make(above=[manual(undo_instructions="Turn it back.")])
    assert waiting(campaign).needs_person == "Turn the knob."
    commands.cancel_campaign(campaign)
    engine.step_until_waiting(campaign.layouts.get().pk)
    layout = waiting(campaign)
    assert (layout.phase, layout.needs_person) == ("tearing_down", "Turn it back.")
    assert not list((tmp_path / "scratch").iterdir())
    done(layout)
    assert (layout.phase, layout.outcome) == ("done", "cancelled")


def test_a_worker_that_died_after_the_pause_is_noticed(make):
    campaign = make(above=[manual(), manual(instructions="Again.")])
    layout = waiting(campaign)
    StepLog.objects.create(layout=layout, kind="apply", argv=["x"], says="cut off")
    done(layout)
    assert (layout.phase, layout.reason) == ("done", "worker_lost")


def test_a_reboot_is_taken_below_all_other_layers(make):
    below = waiting(make([manual()]))
    below.facts_planned.boot_id = "another"
    below.facts_planned.save()
    done(below)
    drive.to_the_end(below.campaign)
    assert below.campaign.layouts.get().outcome == "succeeded"


def test_a_reboot_under_what_stands_is_not_taken(make):
    above = waiting(make(above=[manual()]))
    above.facts_planned.boot_id = "another"
    above.facts_planned.save()
    done(above)
    assert above.reason == "host_rebooted"
    assert "below all other layers" in above.reason_text


def test_only_the_team_may_say_so(make, other_web):
    layout = waiting(make([manual()]))
    url = reverse("layout-person-done", args=[layout.pk])
    assert other_web.post(url, {"key": layout.person_key}).status_code == 404
    assert other_web.get(url).status_code == 405
    layout.refresh_from_db()
    assert layout.person_said_at is None
