"""Home: at which step what runs is, what the last results say (recomputed), whose disks are whose, first steps."""

from __future__ import annotations

import re
from html import unescape
from statistics import median
from types import SimpleNamespace

import pytest
from django.core.cache import cache
from django.urls import reverse
from django.utils import timezone
from redis.exceptions import ConnectionError as Away

from agents.plans import as_json
from benchlab.hosts.models import Device
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
    [says] = re.findall(r"<h3><a [^>]*>(.*?)</a></h3>", article)
    page = unescape(web.get(reverse("campaign-detail", args=[lab.campaign.pk])).text)
    assert f"<strong>{says}</strong>" in page and "LVM 64 KiB" in says
    verdict = "Not conclusive" if says.startswith("Not enough data") else "Conclusive"
    assert f">{verdict}</span>" in article and "Stripe sizes" in article


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
    assert "raw: 6.14 MB/s</a>" in article and "1 run each" in article
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


@pytest.mark.parametrize(("part", "other"), [("home-now", "home-rest"), ("home-rest", "home-now")])
def test_each_part_is_asked_for_alone(web, lab, part, other):
    text = home(web, part)
    assert f'id="{part}"' in text and other not in text and "<html" not in text


def stored(stack) -> dict:
    """A plan as the planner stores it."""
    return as_json.to_json(planned(stack, many_disks()))


def building(lab, done: int = 1) -> Layout:
    layout = Layout.objects.create(
        campaign=made.campaign(lab.team, "Now"),
        host=lab.host,
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


def test_what_was_done_lately_is_told(web, lab):
    Layout.objects.update(ended_at=timezone.now())
    text = home(web).partition('id="activity-title"')[2]
    assert f"campaign {lab.campaign.pk} (Stripe sizes) ended: 18 succeeded" in text


def test_another_team_sees_nothing_of_it(other_web, lab):
    disk(lab.host, "sdb", spare=True)
    building(lab)
    text = home(other_web)
    assert not any(word in text for word in ("vm-09", "Stripe sizes", "sdb", "LVM"))
