"""A campaign's page while it is built and taken down, and its log."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.runs.models import Layout, Measurement, StepLog, Transition
from benchlab.runs.states import LayoutPhase, Outcome
from tests.campaigns.test_views import attempts as attempts  # a fixture
from tests.campaigns.test_views import end, now, url

pytestmark = pytest.mark.django_db


STEPS = [
    {"argv": ["wipefs", "--all", "/dev/sdb"], "says": "Erase the disk"},
    {"argv": ["mkfs.xfs", "/dev/sdb"], "says": "Make a file <system>"},
    {"argv": ["mount", "/dev/sdb", "/mnt"], "says": "Mount it"},
]


def at_work(campaign: Campaign, ended: int, phase: str = "provisioning", **fields) -> Layout:
    """Its first commands ended, and the next one runs."""
    now = timezone.now()
    down = {"outcome": Outcome.SUCCEEDED, "down_at": now} if phase == "tearing_down" else {}
    plan = {"layers": [{"steps": STEPS[:1]}, {"steps": STEPS[1:]}]}
    begun = now - timedelta(seconds=72)
    campaign.layouts.update(phase=phase, begun_at=begun, plan=plan, **down, **fields)
    layout = campaign.layouts.get()
    kind = "apply" if phase == "provisioning" else "teardown"
    for number, step in enumerate(STEPS[: ended + 1]):
        over = {"ended_at": now, "exit_code": 0} if number < ended else {}
        StepLog.objects.create(layout=layout, kind=kind, **step, **over)
    return layout


def work_of(text: str) -> str:
    """The card of what is built, without its tags."""
    (card,) = re.findall('<section class="card work".*?</section>', text, re.DOTALL)
    return " ".join(unescape(re.sub("<[^>]*>", " ", card)).split())


def test_a_layout_is_seen_being_built_from_the_first_second(htmx, campaign):
    campaign.layouts.update(phase=LayoutPhase.PROVISIONING, begun_at=timezone.now())
    said = work_of(now(htmx, campaign).text)
    assert said.startswith("Building layout 1 of 1 on rig Directory")
    assert "reading the host" in said and re.search(r"so far 0:0\d\b", said)


def test_which_step_of_how_many_is_told_and_how_long_it_takes(htmx, campaign, still):
    at_work(campaign, ended=1)
    text = now(htmx, campaign).text
    assert "step 2 of 3 so far 1:12" in work_of(text) and 'data-ticks="72"' in text
    assert '<li class="done"></li><li class="now"></li><li class="later"></li>' in text
    assert "Make a file &lt;system&gt;" in text and "mkfs.xfs /dev/sdb" in text
    assert "left" not in work_of(text)  # nobody knows: it was never built there


STACK = [
    {"kind": "raw", "options": {}, "devices": [{"use": "data", "role": "ssd", "count": 1}]},
    {"kind": "filesystem", "options": {"type": "xfs"}},
]


@pytest.mark.parametrize(
    ("ended", "marks"),
    [
        (0, ["To come", "Being built"]),
        (1, ["Being built", "Built"]),
        (2, ["Being built", "Built"]),
        (3, ["Built", "Built"]),
    ],
)
def test_the_layer_that_is_being_built_is_marked_in_a_drawing(htmx, campaign, ended, marks):
    """The top layer first: the lower one has 1 command of its own, the upper one 2."""
    at_work(campaign, ended=ended, stack=STACK)
    text = now(htmx, campaign).text
    drawn = re.findall('class="stack-layer .*?</li>', text, re.DOTALL)
    assert [re.search("badge[^>]*>([^<]*)<", one)[1] for one in drawn] == marks
    assert [one for one in drawn if 'aria-current="step"' in one] == [
        one for one, mark in zip(drawn, marks, strict=True) if mark == "Being built"
    ]


@pytest.mark.parametrize("phase", ["provisioning", "tearing_down"])
def test_what_is_not_known_to_be_built_is_not_drawn(htmx, campaign, phase):
    """A plan of which nobody knows which layer its commands are of, and a teardown."""
    fields = {"stack": STACK} if phase == "tearing_down" else {}
    at_work(campaign, ended=1, phase=phase, **fields)
    assert "stack-layer" not in now(htmx, campaign).text


def test_what_is_left_is_told_by_the_last_time(htmx, campaign, still):
    layout = at_work(campaign, ended=1)
    begun = timezone.now() - timedelta(hours=1)
    Layout.objects.create(
        campaign=campaign, host=layout.host, topology=layout.topology, stack=layout.stack,
        phase="done", outcome="succeeded", position=7, begun_at=begun, ready_at=begun + timedelta(seconds=132),
    )  # fmt: skip
    said = work_of(now(htmx, campaign).text)
    assert "left, by last time 1:00" in said
    assert "layout 1 of 2" in said


def test_a_build_that_was_taken_back_begins_at_its_first_step(htmx, campaign):
    layout = at_work(campaign, ended=2)
    Layout.objects.filter(pk=layout.pk).update(discarded=3)
    StepLog.objects.filter(layout=layout).update(ended_at=timezone.now())
    assert "step 1 of 3" in work_of(now(htmx, campaign).text)


def test_a_teardown_tells_its_step_and_not_how_many_there_are(htmx, campaign):
    """They are made from what is there."""
    at_work(campaign, ended=1, phase="tearing_down")
    said = work_of(now(htmx, campaign).text)
    assert said.startswith("Taking down layout 1 of 1") and "step 2 so far" in said


def test_who_waits_for_a_person_is_not_told_to_be_at_work(htmx, campaign):
    at_work(campaign, ended=1, needs_person="Press the button")
    text = now(htmx, campaign).text
    assert "card work" not in text and "Press the button" in text


def test_a_build_costs_no_query_more(htmx, campaign, attempts, django_assert_max_num_queries):
    for attempt in attempts[:2]:
        end(attempt, Outcome.SUCCEEDED)
        Measurement.objects.create(attempt=attempt, name="iops", value=9.0, unit="op/s")
    at_work(campaign, ended=1)
    shown = unescape(re.findall('hx-get="([^"]+)"', now(htmx, campaign).text)[0])
    with django_assert_max_num_queries(15):  # one of them: was an answer dismissed meanwhile?
        answer = htmx.get(shown, headers={"HX-Target": "campaign-now"})
    assert "step 2 of 3" in work_of(answer.text)


def test_the_log_is_searched_and_stays_so_while_it_is_live(htmx, web, campaign):
    layout = at_work(campaign, ended=1)
    Transition.objects.create(layout=layout, old="draft", new="waiting", reason="started 100%")
    for text, found in (
        ("MKFS sdb", ["Make a file <system> (running)"]),
        ("0%", ["draft → waiting: started 100%"]),
        ("erase", ["Erase the disk (exit 0)"]),
        ("mount wipefs", []),
    ):
        page = web.get(url("campaign-detail", campaign), {"q": text})
        assert [line.text for line in page.context["log"].lines] == found
    assert "No line has “mount wipefs”." in page.text and 'value="mount wipefs"' in page.text
    live = now(htmx, campaign, "?q=erase").text
    assert "<mark>Erase</mark> the disk (exit 0)" in live and "started 100%" not in live
    assert "q=erase&amp;running=" in live
    assert web.get(url("campaign-detail", campaign), {"q": "x" * 201}).status_code == 400


def test_the_log_has_every_move_and_command_in_order(web, campaign, attempts):
    layout = campaign.layouts.get()
    Transition.objects.create(layout=layout, old="draft", new="waiting", reason="started")
    StepLog.objects.create(
        layout=layout, kind="apply", argv=["mkdir", "a b"], says="Make it", exit_code=1,
        stderr="no space", ended_at=timezone.now(),
    )  # fmt: skip
    Transition.objects.create(layout=layout, attempt=attempts[2], old="queued", new="starting")
    page = web.get(url("campaign-detail", campaign))
    log, run = page.context["log"], attempts[2].run_id
    assert [(line.text, line.command, line.run) for line in log.lines] == [
        ("queued → starting", "", run),
        ("Make it (exit 1: no space)", "mkdir 'a b'", None),
        ("draft → waiting: started", "", None),
    ]
    assert log.earlier == 0
    assert f'<a href="/runs/{run}/">run {run}</a>: queued' in page.text  # its number on every page


def test_the_log_of_some_days_says_which(web, campaign):
    layout = campaign.layouts.get()
    for day in (1, 1, 2):
        row = Transition.objects.create(layout=layout, old="a", new="b")
        at = datetime(2026, 3, day, 23, 59, tzinfo=UTC)
        Transition.objects.filter(pk=row.pk).update(at=at)
    page = web.get(url("campaign-detail", campaign)).text
    assert re.findall('<li class="day">(.*?)</li>', page) == ["2 Mar 2026", "1 Mar 2026"]


def test_what_hosts_say_is_no_markup_in_the_log_nor_in_the_heat_map(web, campaign, attempts):
    """Both are made without a template."""
    layout = campaign.layouts.get()
    StepLog.objects.create(
        layout=layout, kind="apply", argv=["echo", "<i>"], says="<b>", exit_code=1, stderr="<u>",
        ended_at=timezone.now(),
    )  # fmt: skip
    end(attempts[0], Outcome.SUCCEEDED)
    Measurement.objects.create(attempt=attempts[0], name="iops", value=1.0, unit="<s>")
    text = web.get(url("campaign-detail", campaign)).text
    assert not any(tag in text for tag in ("<i>", "<b>", "<u>", "<s>"))
    assert (
        "&lt;b&gt; (exit 1: &lt;u&gt;)</span><code>echo &#x27;&lt;i&gt;&#x27;</code><button" in text
    )
    assert 'aria-label="Copy the command: &lt;b&gt; (exit 1: &lt;u&gt;)"></button>' in text
    assert 'title="1 &lt;s&gt;, one repeat; 1 queued">1 &lt;s&gt;<small>1/2</small></a>' in text


def test_old_lines_of_the_log_are_one_link_away(web, campaign):
    layout = campaign.layouts.get()
    Transition.objects.bulk_create(
        Transition(layout=layout, old="a", new="b", reason=str(n)) for n in range(205)
    )
    short = web.get(url("campaign-detail", campaign)).context["log"]
    assert (len(short.lines), short.earlier) == (200, 5)
    whole = web.get(url("campaign-detail", campaign) + "?log=all").context["log"]
    assert (len(whole.lines), whole.earlier) == (205, 0)
