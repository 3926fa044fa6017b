"""The library on the pages: the articles' charts hold the articles' figures; everybody reads it, nobody changes it."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest
from django.urls import get_resolver, reverse

from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt
from benchlab.topologies.models import Topology
from tests.imports.test_library import (  # fmt: skip
    AZURE,
    BCACHE,
    CACHE,
    DD,
    HDD,
    NOSYNC,
    PG,
    QUOTED,
    RAW,
    SSD,
    STRIPE,
    SYNC,
)

pytestmark = pytest.mark.usefixtures("shelved")


def figure(web, name: str, workload: str, **query: str) -> dict[str, Any]:
    """Figure on the campaign's page for that workload."""
    campaign = Campaign.objects.get(name__startswith=name)
    page = web.get(reverse("campaign-detail", args=[campaign.pk]), query)
    assert page.status_code == 200
    card = next(card for card in page.context["cards"] if card.title == workload)
    drawn: dict[str, Any] = web.get(card.figure_url).json()
    go.Figure(drawn)
    return drawn


def bars(drawn: dict[str, Any]) -> dict[str, float]:
    return {t["name"]: t["x"][0] for t in drawn["data"] if t["type"] == "bar"}


def medians(drawn: dict[str, Any], axis: str) -> dict[str, list[float]]:
    return {
        t["name"]: t["y"]
        for t in drawn["data"]
        if t["yaxis"] == axis and t["mode"].startswith("lines+markers")
    }


def test_fsync_by_layout(web):
    drawn = figure(web, "fsync by layout", PG)
    assert bars(drawn) == {
        "PCIe SSD, xfs": 45160.147, CACHE: 8178.149, STRIPE: 5143.975,
        "zpool of 12 with SLOG on the SSD": 6107.726, "zpool of 12, ashift 12": 8086.756,
    }  # fmt: skip
    assert drawn["layout"]["xaxis"]["title"]["text"] == "fdatasync, one write (fdatasyncs/s)"


def test_every_method_by_layout(web):
    drawn = figure(web, "fsync by layout", PG, metric="one.*.ops")
    shown = {t["name"]: dict(zip(t["y"], t["x"], strict=True)) for t in drawn["data"]}
    assert shown["PCIe SSD, xfs"] == {
        "open_datasync": 56805.093, "fdatasync": 45160.147, "fsync": 45507.091, "open_sync": 57602.016,
    }  # fmt: skip
    assert shown["zpool of 12 with SLOG on the SSD"] == {"fdatasync": 6107.726, "fsync": 7016.477}


def test_synced_writes_by_layout(web):
    shown = bars(figure(web, "fsync by layout", DD))
    assert {name: round(value / 1e6, 1) for name, value in shown.items()} == {
        "PCIe SSD, xfs": 75.4, CACHE: 5.8, "zpool of 12 with SLOG on the SSD": 40.5,
    }  # fmt: skip


def test_sync_standard_against_disabled(web):
    assert bars(figure(web, "ZFS sync", PG)) == {SYNC: 6676.001, NOSYNC: 115687.3}


def test_the_cloud_disks_of_2017_over_outstanding(web):
    drawn = figure(web, "IOPS and latency over", AZURE)
    assert medians(drawn, "y") == {
        SSD: [1683, 3327, 5095, 5101, 5099],
        HDD: [463, 633, 749, 789, 833],
    }
    latencies = medians(drawn, "y2")
    assert latencies[SSD] == pytest.approx([2.38e-3, 2.40e-3, 3.14e-3, 6.27e-3, 12.55e-3])
    assert latencies[HDD] == pytest.approx([8.61e-3, 12.63e-3, 21.20e-3, 40.27e-3, 76.80e-3])
    rings = [t for t in drawn["data"] if t.get("marker", {}).get("symbol") == "circle-open"]
    assert rings == []  # one run each: said, and not drawn
    assert drawn["layout"]["yaxis2"]["title"]["text"] == "Total latency (s)"


def test_what_the_cloud_disks_curves_say(web):
    """Knees of 4 and 8, four workers each; the SSD is capped, the HDD still gains a little."""
    campaign = Campaign.objects.get(name__startswith="IOPS and latency over")
    page = web.get(reverse("campaign-detail", args=[campaign.pk]))
    [card] = [card for card in page.context["cards"] if card.title == AZURE]
    said = dict(card.knees)
    assert said[SSD].startswith("about 4 outstanding, from there on 5.1 k IOPS")
    assert said[HDD].startswith("about 8 outstanding") and "cap" not in said[HDD]
    assert "from one repeat per depth" in said[SSD]
    assert card.workers == 4
    text = page.content.decode()
    assert "4 times the outstanding I/Os were in flight at every point" in text
    assert "does not hold at" not in text


def test_host_cache(web):
    shown = bars(figure(web, "Host cache", AZURE + ", 4 outstanding", metric="write.lat.mean"))
    assert list(shown.values()) == pytest.approx([0.00292, 0.00291, 0.00162])


def test_bcache_against_the_raw_ssd_by_depth(web):
    drawn = figure(web, "bcache against", QUOTED)
    assert medians(drawn, "y") == {
        RAW: [19700, 14900, 23500, 19800, 12200],
        BCACHE: [8900, 8700, 16700, 20300, 18500],
    }
    assert drawn["layout"]["xaxis"]["tickvals"] == [4, 8, 16, 32, 64]


def test_bonnie(web):
    drawn = figure(web, "bonnie++", "bonnie++ 1.96, 15464 MiB")
    (trace,) = drawn["data"]
    shown = dict(zip(trace["y"], trace["x"], strict=True))
    assert shown == {
        "write.char": 940 * 1024, "write.block": 40404 * 1024, "rewrite": 19568 * 1024,
        "read.char": 2630 * 1024, "read.block": 68826 * 1024,
    }  # fmt: skip


def test_it_compares_with_itself_and_says_what_differs(web):
    both = Campaign.objects.filter(origin__library__in=["centos7-caches", "freebsd-zfs"])
    page = web.get(reverse("compare"), {"campaign": [one.pk for one in both]})
    card = next(card for card in page.context["cards"] if card.title == PG)
    assert len(card.names) == 7
    assert "Host" in card.differences.compared.names
    assert len(bars(web.get(card.figure_url).json())) == 7


def test_everybody_reads_it(web, other_web):
    for campaign in Campaign.objects.filter(source=Campaign.Source.LIBRARY):
        for client in (web, other_web):
            assert client.get(reverse("campaign-detail", args=[campaign.pk])).status_code == 200
    run = Run.objects.get(topology__name=SSD, workload__name=AZURE, outstanding=1)
    page = web.get(reverse("run-detail", args=[run.pk]))
    assert page.status_code == 200
    assert "1.68 k IOPS" in page.content.decode()


def test_the_source_is_told_in_words(web):
    campaign = Campaign.objects.get(origin__library="zvol-bonnie")
    text = web.get(reverse("campaign-detail", args=[campaign.pk])).content.decode()
    assert "<dt>Original title</dt><dd>ZVOL の性能</dd>" in text
    assert campaign.origin["sha256"] not in text


def test_fsyncs_are_no_ios(web):
    run = Run.objects.get(topology__name=CACHE, workload__name=PG)
    text = web.get(reverse("run-detail", args=[run.pk])).content.decode()
    assert "8.11 k fsyncs/s" in text
    assert "8.11 k IOPS" not in text


ROWS: dict[str, Any] = {"campaign": Campaign, "host": Host, "topology": Topology, "workload": Workload, "run": Run,
        "attempt": Attempt, "campaigns": Campaign, "hosts": Host, "topologies": Topology,
        "workloads": Workload, "runs": Run, "attempts": Attempt}  # fmt: skip


def urls() -> list[tuple[str, str]]:
    """(path, what its pk is of) of every page that takes nothing but the pk of a row that the library has."""
    found = []
    for path, _ in _walk(get_resolver().url_patterns, ""):
        head = path.split("/")[0]
        if path.count("<") == 1 and "<int:pk>" in path and head in ROWS:
            found.append((path, head))
    return found


def _walk(patterns, prefix):
    for pattern in patterns:
        here = prefix + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from _walk(pattern.url_patterns, here)
        else:
            yield here, pattern


def test_there_are_pages_that_change_something():
    assert len(urls()) > 15


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("path", "kind"), urls())
def test_nobody_changes_it(web, path, kind):
    model = ROWS[kind]
    owner = {Run: "campaign__team", Attempt: "run__campaign__team"}.get(model, "team")
    row = model.objects.filter(**{f"{owner}__library": True}).first()
    assert row is not None
    before = {m: list(m.objects.order_by("pk").values()) for m in set(ROWS.values())}
    answer = web.post("/" + path.replace("<int:pk>", str(row.pk)), {"name": "mine", "confirm": "1"})
    # Whoever reads a study may have its report made, for themselves; nothing of the study changes.
    assert answer.status_code in (403, 404, 405) or path.endswith("/report-files/")
    assert {m: list(m.objects.order_by("pk").values()) for m in set(ROWS.values())} == before
