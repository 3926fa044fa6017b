"""Home: at which step what runs is, what the last results say (recomputed), whose disks are whose, first steps."""

from __future__ import annotations

import re
from html import unescape
from statistics import median
from types import SimpleNamespace

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from redis.exceptions import ConnectionError as Away

from agents.plans import applied_part
from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Attempt, Layout, Measurement, StepLog
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from tests.charts import made
from tests.charts.test_heat import number
from tests.topologies.plans import layer, many_disks
from tests.topologies.plans import made as planned

pytestmark = pytest.mark.django_db
CLAIM = {"identity": "serial:A", "node": "/dev/A"}
STEPS = [{"says": f"Step {n}", "argv": ["true", str(n)]} for n in (1, 2, 3)]


@pytest.fixture
def lab(team):
    where, campaign, load = made.host(team), made.campaign(team), made.workload(team)
    stacks = [made.topology(team, "LVM 64 KiB"), made.topology(team, "raw")]
    for stack, top in zip(stacks, (90000.0, 30000.0), strict=True):
        made.swept(campaign, where, stack, load, top=top, depths=(1, 4, 16), seed=stack.pk)
    return SimpleNamespace(team=team, host=where, campaign=campaign, load=load, stacks=stacks)


def home(web, part: str = "") -> str:
    headers = {"HX-Request": "true", "HX-Target": part} if part else {}
    answer = web.get(reverse("home"), headers=headers)
    assert answer.status_code == 200
    return str(answer.text)


def articles(text: str) -> list[str]:
    found = re.findall(r'<article class="card w3 latest">(.*?)</article>', text, re.DOTALL)
    return [unescape(one) for one in found]


def test_a_result_is_told_by_the_sentence_of_its_campaign(web, lab):
    [article] = articles(home(web))
    [says] = re.findall(r"<p><strong>(.*?)</strong></p>", article)
    page = unescape(web.get(reverse("campaign-detail", args=[lab.campaign.pk])).text)
    assert says in page and "LVM 64 KiB" in says
    verdict = "Not conclusive" if says.startswith("Not enough data") else "Conclusive"
    assert f">{verdict}</span>" in article and "Stripe sizes" in article


def test_a_result_is_headed_by_the_question_of_its_campaign(web, lab):
    [article] = articles(home(web))
    assert f">{lab.campaign.question or lab.campaign}</a></h3>" in article
    lab.campaign.question = "Is a stripe faster?"
    lab.campaign.save()
    [article] = articles(home(web))
    assert ">Is a stripe faster?</a></h3>" in article and "Stripe sizes" in article


def test_its_chart_has_the_medians(web, lab):
    [article] = articles(home(web))
    [told] = re.findall('aria-label="(IOPS over outstanding[^"]*)"', article)
    for stack in lab.stacks:
        [line] = re.findall(rf"{stack.name}: ([^;]*?)[;.](?: |$)", told)
        points = re.findall(r"([\d.]+ ?k?) IOPS at (\d+)", line)
        assert [int(depth) for _, depth in points] == [1, 4, 16]
        for text, depth in points:
            rows = Measurement.objects.filter(
                name="iops",
                attempt__run__topology=stack,
                attempt__run__point={"iodepth": int(depth)},
            )
            expected = median(rows.values_list("value", flat=True))
            assert number(text.strip()) == pytest.approx(expected, rel=0.006)


def test_a_single_run_says_what_it_did(web, team):
    campaign = made.campaign(team, "dd", repeats=1)
    load = made.workload(team, "write")
    load.sweep = {}
    layout = made.done_layout(campaign, made.host(team), made.topology(team, "raw"))
    made.finished(campaign, layout, load, None, 1, 1500.0)
    [article] = articles(home(web))
    assert "<strong>raw: 6.14 MB/s</strong>" in article and "1 run each" in article
    assert 'class="bars"' in article and "<strong>6.14 MB/s</strong>" in article


def test_one_without_a_result_says_so(web, lab):
    Attempt.objects.update(outcome=Outcome.FAILED)
    [article] = articles(home(web))
    assert "No result: 18 failed." in article and "Stripe sizes</a>" in article


@pytest.fixture
def kept(settings):
    """A cache that keeps: tests have none."""
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    yield
    cache.clear()


def test_results_are_kept_until_a_layout_ends_anew(web, lab, kept):
    before = articles(home(web))
    Measurement.objects.update(value=1.0)
    assert articles(home(web)) == before
    Layout.objects.update(ended_at=timezone.now())
    assert articles(home(web)) != before


def test_home_is_there_while_the_cache_is_away(web, lab, monkeypatch):
    def gone(*args, **kwargs):
        raise Away("refused")

    monkeypatch.setattr(cache, "get_many", gone)
    [article] = articles(home(web))
    assert "Stripe sizes</a>" in article and "<svg" not in article


def test_queries_do_not_grow_with_what_is_shown(
    web, lab, team, kept, django_assert_max_num_queries
):
    for n in range(6):
        more = made.campaign(team, f"Campaign {n}")
        for stack in lab.stacks:
            made.swept(more, made.host(team, f"vm-{n}-{stack.pk}"), stack, lab.load, depths=(1, 4))
    home(web)
    with django_assert_max_num_queries(26):
        home(web)
    with django_assert_max_num_queries(10):
        home(web, "home-now")


def test_queries_do_not_grow_with_what_is_to_come(web, lab, django_assert_num_queries):
    to_come(lab, 3)
    with CaptureQueriesContext(connection) as before:
        home(web, "home-now")
    for _ in range(4):
        to_come(lab, 3, planned_at=timezone.now())
    disk(lab.host, "sdk", spare=True, present=False)
    with django_assert_num_queries(len(before)):
        home(web, "home-now")


@pytest.mark.parametrize(("part", "other"), [("home-now", "home-rest"), ("home-rest", "home-now")])
def test_each_part_is_asked_for_alone(web, lab, part, other):
    text = home(web, part)
    assert f'id="{part}"' in text and other not in text and "<html" not in text


def stored(stack) -> dict:
    """A plan as the planner stores it."""
    return applied_part.to_json(planned(stack, many_disks()))


def building(lab, done: int = 1, host: Host | None = None) -> Layout:
    layout = Layout.objects.create(
        campaign=made.campaign(lab.team, "Now"),
        host=host or lab.host,
        topology=lab.stacks[0],
        stack=[],
        phase=LayoutPhase.PROVISIONING,
        plan={"layers": [{"steps": STEPS, "gives": {"devices": {"data": [CLAIM]}}}]},
        begun_at=timezone.now(),
    )
    for step in STEPS[: done + 1]:
        row = StepLog.objects.create(
            layout=layout, kind="apply", argv=step["argv"], says=str(step["says"])
        )
        if step != STEPS[done]:
            StepLog.objects.filter(pk=row.pk).update(ended_at=timezone.now(), exit_code=0)
    return layout


def test_what_is_built_is_told_with_its_step(web, lab):
    building(lab)
    text = home(web)
    assert "Building layout 1 of 1</strong>, LVM 64 KiB on vm-09 · step 2 of 3: Step 2" in text
    assert re.search(
        r'<ol class="segs" aria-label="Step 2 of 3">(<li class="\w+"></li>){3}</ol>', text
    )


def test_what_is_measured_is_told_with_its_run(web, lab):
    layout = building(lab)
    Layout.objects.filter(pk=layout.pk).update(phase=LayoutPhase.READY)
    run = made.run(layout.campaign, layout, lab.load, 4, 2)
    Attempt.objects.create(run=run, layout=layout, phase=AttemptPhase.RUNNING)
    text = home(web)
    assert "<strong>Measuring</strong> LVM 64 KiB on vm-09" in text
    assert "randread 4 KiB, iodepth 4, repeat 2</a>" in text


def disk(host, name: str, **fields) -> Device:
    told = {"role": "hdd", "size": 4 << 40, **fields}
    given = {"spare_size": told["size"]} if told.get("spare") else {}
    return Device.objects.create(host=host, identity=f"serial:{name}", name=name, **told, **given)


def test_every_disk_is_a_block_that_says_what_it_is(web, lab):
    building(lab)
    disk(lab.host, "A", spare=True)
    disk(lab.host, "sdb10", spare=True)
    disk(lab.host, "sdb9", spare=True)
    disk(lab.host, "nvme0n1", spare=True, role="nvme", size=2**30)
    disk(lab.host, "sdc", spare=True, present=False)
    disk(lab.host, "sdd")
    disk(lab.host, "sda", in_use="mounted on /", role="")
    disk(lab.host, "sdz", present=False)
    body = home(web).partition('class="fleet"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    blocks = re.findall(r'<li class="disk ([^"]*)" title="([^"]*)">', body)
    assert blocks == [
        ("use", "A, 4 TiB, hdd, in use"),
        ("spare", "sdb9, 4 TiB, hdd, spare"),
        ("spare", "sdb10, 4 TiB, hdd, spare"),
        ("fail", "sdc, 4 TiB, hdd, gone since it was marked spare"),
        ("", "sdd, 4 TiB, hdd, not marked spare"),
        ("spare ssd", "nvme0n1, 1 GiB, nvme, spare"),
        ("sys", "sda, 4 TiB, used by the system, never touched"),
    ]
    assert body.count('<ul class="disks">') == 3
    assert '<td class="num">3</td>' in body and '<td class="num">8 TiB</td>' in body
    assert "1 gone" in body


def test_first_steps_stay_until_a_layout_on_disks_was_measured(web, lab):
    assert 'id="steps-title"' not in home(web)
    Layout.objects.update(plan=stored([layer("directory", {"path": "/srv"})]))
    text = home(web)
    assert 'id="steps-title"' in text and text.count("data-done") == 4  # no disk is spare yet
    assert (
        '<a href="/compare-layouts/">Compare layouts</a>' in text.partition('id="steps-title"')[2]
    )
    Layout.objects.update(plan=stored([layer("raw", data=("hdd", 1))]))
    assert 'id="steps-title"' not in home(web)
    Attempt.objects.update(outcome=Outcome.FAILED)
    assert 'id="steps-title"' in home(web)


@pytest.fixture
def known(lab):
    """With a host that is in no trouble."""
    Host.objects.update(host_key="ssh-ed25519 AAAA")
    return lab


def to_come(lab, wants: int, phase: str = LayoutPhase.DRAFT, **fields) -> Layout:
    """A layout of so many hard disks whose turn is still to come, with a run of 100 s."""
    devices = [{"use": "data", "role": "hdd", "count": wants}]
    layout = Layout.objects.create(
        campaign=made.campaign(lab.team, "Wider?", repeats=1),
        host=lab.host,
        topology=lab.stacks[0],
        stack=[{"kind": "raw", "options": {}, "devices": devices}],
        phase=phase,
        expected_s=20,
        **fields,
    )
    Attempt.objects.create(run=made.run(layout.campaign, layout, lab.load, 4, 1), layout=layout)
    Attempt.objects.filter(layout=layout).update(phase=AttemptPhase.QUEUED)
    layout.campaign.runs.update(expected_s=100)
    return layout


def needed(text: str) -> str:
    """The card, in plain words."""
    card = text.partition('id="person-title"')[2].partition("</section>")[0]
    return " ".join(unescape(re.sub("<[^>]*>", " ", card)).split())


def test_nothing_is_needed(web, known):
    assert 'id="person-title"' not in home(web)


@pytest.mark.parametrize("access", [Host.Access.DESCRIBED, Host.Access.DYNAMO])
def test_a_host_without_ssh_has_no_key_to_confirm(web, known, access):
    """47 of them, each made by an import, hid all else on the page, for ever."""
    Host.objects.create(team=known.team, name="from a paper", access=access)
    text = home(web)
    assert 'id="person-title"' not in text and "not confirmed" not in text
    Host.objects.filter(name=known.host.name).update(host_key="")
    assert "Its host key is not confirmed yet" in needed(home(web))


def test_a_plan_that_waits_tells_host_disks_and_time(web, other_web, known):
    for name in "AB":
        disk(known.host, name, spare=True)
    plan = stored([layer("lvm", data=("hdd", 2))])
    layout = to_come(known, 2, plan=plan, planned_at=timezone.now())
    text = home(web)
    assert "Action needed 1 thing to do Plan to confirm made" in needed(text)
    assert "Destroys what is on 2 disks of vm-09, about 2 min" in needed(text)
    assert (
        f'<a role="button" class="secondary" href="/campaigns/{layout.campaign_id}/#campaign-plan"'
        in text
    )
    assert "1 needs you" in text and "Plan to confirm" not in home(other_web)


def test_a_plan_that_is_made_just_now_says_so(web, known):
    disk(known.host, "A", spare=True)
    to_come(known, 1)
    assert "Being planned: 1 layout left, on vm-09." in needed(home(web))


def test_a_plan_that_touches_no_disk_says_so(web, known):
    to_come(known, 0, planned_at=timezone.now())
    assert "On vm-09; no disk is touched, about 2 min" in needed(home(web))


def test_a_spare_disk_that_is_gone_is_told_until_it_is_no_spare(web, other_web, known):
    disk(known.host, "sdc", spare=True)
    gone = disk(known.host, "sdk", spare=True, present=False)
    disk(known.host, "sdz", present=False)  # nobody gave it
    text = needed(home(web))
    assert "Disks missing vm-09 Marked spare, but gone: sdk (hdd, 4 TiB)" in text
    assert "Plug it in again" in text and "sdz" not in text and "lacks" not in text
    assert "sdk" not in needed(home(other_web))
    Device.objects.filter(pk=gone.pk).update(spare=False)
    assert 'id="person-title"' not in home(web)


@pytest.mark.parametrize("phase", [LayoutPhase.DRAFT, LayoutPhase.WAITING])
def test_what_waits_for_more_disks_than_there_are_is_told_once(web, known, phase):
    disk(known.host, "sdc", spare=True)
    disk(known.host, "sdk", spare=True, present=False)
    first = to_come(known, 3, phase)
    Layout.objects.create(
        campaign=first.campaign, host=known.host, topology=first.topology, stack=first.stack,
        phase=phase, visit=2, position=1,
    )  # fmt: skip
    text = needed(home(web))
    assert text.count("lacks 2 spare hdd") == 1 and "Wider? : LVM 64 KiB lacks" in text
    disk(known.host, "sdd", spare=True)
    disk(known.host, "sde", spare=True)
    assert "lacks" not in needed(home(web))


def test_what_a_cancelled_campaign_wanted_is_not_waited_for(web, known):
    layout = to_come(known, 3)
    layout.campaign.cancelled_at = timezone.now()
    layout.campaign.save()
    assert "lacks" not in home(web)


def test_what_is_asked_for_anew_renews_the_bar(web, known):
    layout = building(known)
    for text in (home(web), home(web, "home-rest")):
        assert "hx-swap-oob" not in text
    text = home(web, "home-now")
    assert '<span id="top-runs" hx-swap-oob="true">' in text
    assert f'href="/campaigns/{layout.campaign_id}/">1 running</a>' in text
    assert '<span id="nav-needed" class="count" hx-swap-oob="true">' in text


def wall(web, part: str = "") -> str:
    headers = {"HX-Request": "true", "HX-Target": part} if part else {}
    return str(web.get(reverse("home"), {"wall": "1"}, headers=headers).text)


def test_a_wall_screen_is_home_without_a_menu(web, client, other_web, known):
    building(known)
    disk(known.host, "sdc", spare=True)
    disk(known.host, "sdk", spare=True, present=False)
    to_come(known, 2)
    assert 'href="?wall=1"' in home(web)
    text = unescape(wall(web))
    assert 'id="nav"' not in text and 'id="wall-leave" href="/"' in text
    assert "Building layout 1 of 1</strong>, LVM 64 KiB on vm-09 · step 2 of 3: Step 2" in text
    for said in (
        "1 running · 2 need a person",
        "sdk gone; LVM 64 KiB lacks 1 hdd",
        "Wider?",
        "1 spare disk<",
    ):
        assert said in text, said
    assert articles(text) == articles(home(web)) != []
    assert not any(word in wall(other_web) for word in ("vm-09", "Stripe sizes", "sdc", "LVM"))
    assert client.get("/?wall=1")["Location"] == "/login/?next=/%3Fwall%3D1"


@pytest.mark.parametrize(("part", "other"), [("wall-now", "wall-rest"), ("wall-rest", "wall-now")])
def test_each_part_of_a_wall_screen_is_asked_for_alone(web, lab, part, other):
    text = wall(web, part)
    assert f'id="{part}"' in text and other not in text and "<html" not in text


def test_a_wall_screen_is_cut_to_what_it_holds(web, known):
    for n in range(8):
        building(known, host=made.host(known.team, f"vm-1{n}"))
    text = wall(web)
    assert "8 running" in text and text.count('<article class="running">') == 3
    # Hosts whose keys nobody confirmed
    assert "and 5 more</p>" in text and "8 need a person" in text
    assert text.count('<span class="badge is-bad">Host</span>') == 6
    assert "0 spare disks, of more hosts than these" in text


def test_of_a_campaign_on_many_hosts_a_wall_screen_tells_the_first(web, known):
    first = building(known)
    for n in range(4):
        second = building(known, host=made.host(known.team, f"vm-1{n}"))
        Layout.objects.filter(pk=second.pk).update(campaign=first.campaign)
    text = wall(web)
    assert text.count('class="at-work"') == 3 and "and 2 more at work" in text
    assert home(web).count('class="at-work"') == 5


def test_what_was_done_lately_is_told(web, lab):
    Layout.objects.update(ended_at=timezone.now())
    text = home(web).partition('id="activity-title"')[2]
    assert f"campaign {lab.campaign.pk} (Stripe sizes) ended: 18 succeeded" in text


def test_another_team_sees_nothing_of_it(other_web, lab):
    disk(lab.host, "sdb", spare=True)
    building(lab)
    text = home(other_web)
    assert not any(word in text for word in ("vm-09", "Stripe sizes", "sdb", "LVM"))


def test_what_the_first_campaign_measures_is_not_what_a_person_chose(web, team):
    """`up` measures workloads of its own in a directory; they are chosen once they run on a layout."""
    host, load = made.host(team), made.workload(team)
    scratch = made.topology(team, "scratch directory")
    scratch.stack = [{"kind": "directory", "options": {}, "devices": []}]
    scratch.save()
    made.swept(made.campaign(team), host, scratch, load, depths=(1,), repeats=1)
    Layout.objects.update(plan=stored([layer("directory", {"path": "/srv"})]))
    assert "Add a host" in done_steps(web)
    assert "Choose a workload" not in done_steps(web)
    made.workload(team, "mine")
    assert "Choose a workload" in done_steps(web)


def done_steps(web) -> list[str]:
    return re.findall(r"<li data-done><a [^>]*>([^<]*)</a>", home(web))
