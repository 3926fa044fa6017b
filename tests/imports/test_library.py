"""The reference library: every figure of the articles is stored, once, as they print it, and nobody changes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command

from agents.plans import chain
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.hosts.models import Host
from benchlab.imports import reference_library
from benchlab.imports.reference_library import ArticleError, articles
from benchlab.runs import attempt_meta
from benchlab.runs.models import Attempt, Measurement, Series
from benchlab.team.models import Team
from tests.each_case import check_each

ALL = {article.slug: article for article in articles()}
PG = "pg_test_fsync, 8 kB"
DD = "dd, synced writes of 4 KiB"
AZURE = "IOmeter 8 KiB, 50 % random, 50 % writes"
SSD, HDD = "Azure SSD P30, host cache none", "Azure HDD S30, host cache read/write"
CACHE = "LVM cache (writeback) over a stripe of 12, xfs"
STRIPE, POOL = "LVM stripe of 12, 4 KiB, xfs", "zpool of 12, ashift 12"
SLOG = "zpool of 12 with SLOG on the SSD"
SYNC, NOSYNC = "zpool of 12 (FreeBSD), sync=standard", "zpool of 12 (FreeBSD), sync=disabled"
RAW, BCACHE = "Raw SSD (utumno)", "bcache, SSD before a disk (utumno)"
ZVOL = "ext4 on a zvol (8 KiB blocks), scheduler deadline"
QUOTED = "Random write 4 KiB, rates as quoted"
BONNIE = "bonnie++ 1.96, 15464 MiB"

# Read off the articles by eye: topology, workload, outstanding (of the point), metric, value in base units.
FIGURES = [
    ("PCIe SSD, xfs", PG, None, "one.open_datasync.ops", 56805.093),
    ("PCIe SSD, xfs", PG, None, "one.fsync.ops", 45507.091),
    ("PCIe SSD, xfs", PG, None, "one.fsync.latency", 22e-6),
    ("PCIe SSD, xfs", PG, None, "one.fsync_writethrough.ops", None),
    ("PCIe SSD, xfs", PG, None, "open_sync.16x1.ops", 417.767),
    ("PCIe SSD, xfs", PG, None, "unsynced.write.ops", 314143.606),
    (CACHE, PG, None, "one.fdatasync.ops", 8178.149),
    (CACHE, PG, None, "one.fsync.ops", 8113.938),
    (CACHE, PG, None, "two.open_sync.ops", 4205.576),
    (CACHE, PG, None, "other_descriptor.write_close_fsync.ops", 7481.698),
    (STRIPE, PG, None, "one.fsync.ops", 5248.552),
    (STRIPE, PG, None, "two.fdatasync.ops", 4121.941),
    (STRIPE, PG, None, "open_sync.8x2.ops", 786.708),
    (SLOG, PG, None, "one.fsync.ops", 7016.477),
    (SLOG, PG, None, "two.fsync.ops", 8100.693),
    (SLOG, PG, None, "one.open_sync.ops", None),
    (SLOG, PG, None, "unsynced.write.ops", 82646.970),
    (POOL, PG, None, "one.fdatasync.ops", 8086.756),
    (POOL, PG, None, "one.fsync.ops", 7312.509),
    ("PCIe SSD, xfs", DD, None, "bytes", 524288000.0),
    ("PCIe SSD, xfs", DD, None, "bandwidth", 524288000 / 6.95128),
    (CACHE, DD, None, "bandwidth", 524288000 / 90.1487),
    (SLOG, DD, None, "bandwidth", 524288000 / 12.9542),
    ("PCIe SSD, xfs", "SSD busy during pg_test_fsync", None, "ssd.util", 0.59),
    (CACHE, "SSD busy during pg_test_fsync", None, "ssd.util", 0.55),
    ("PCIe SSD, xfs", "SSD busy during dd", None, "ssd.util", 0.276),
    (SYNC, PG, None, "one.fsync.ops", 6676.001),
    (SYNC, PG, None, "one.fdatasync.ops", None),
    (SYNC, PG, None, "open_sync.1x16.ops", 4965.249),
    (NOSYNC, PG, None, "one.fsync.ops", 115687.300),
    (NOSYNC, PG, None, "one.open_sync.ops", 126789.698),
    (NOSYNC, PG, None, "unsynced.write.ops", 78263.057),
    (SSD, AZURE, 1, "iops", 1683.0),
    (SSD, AZURE, 2, "iops", 3327.0),
    (SSD, AZURE, 4, "iops", 5095.0),
    (SSD, AZURE, 4, "lat.mean", 0.00314),
    (SSD, AZURE, 8, "read.iops", 2554.0),
    (SSD, AZURE, 16, "iops", 5099.0),
    (SSD, AZURE, 16, "write.lat.mean", 0.01238),
    (HDD, AZURE, 1, "iops", 463.0),
    (HDD, AZURE, 2, "lat.mean", 0.01263),
    (HDD, AZURE, 8, "write.iops", 395.0),
    (HDD, AZURE, 16, "iops", 833.0),
    (HDD, AZURE, 16, "read.lat.mean", 0.09501),
    ("Azure HDD S30, host cache none", AZURE + ", 1 outstanding", 1, "iops", 493.0),
    ("Azure HDD S30, host cache read only", AZURE + ", 1 outstanding", 1, "write.iops", 256.0),
    (HDD, AZURE + ", 1 outstanding", 1, "read.iops", 231.0),
    ("Azure SSD P30, host cache read only", AZURE + ", 4 outstanding", 4, "iops", 6143.0),
    ("Azure SSD P30, host cache read/write", AZURE + ", 4 outstanding", 4, "write.lat.mean", 0.00162),
    ("md RAID 5 of 3 Azure SSD P30", AZURE + ", depth not told", None, "read.iops", 3468.0),
    ("md RAID 5 of 3 Azure SSD P30", AZURE + ", depth not told", None, "disks.iops", 17368.0),
    (ZVOL, BONNIE, None, "write.block.bandwidth", 40404 * 1024),
    (ZVOL, BONNIE, None, "rewrite.bandwidth", 19568 * 1024),
    (ZVOL, BONNIE, None, "read.block.bandwidth", 68826 * 1024),
    (ZVOL, BONNIE, None, "write.char.cpu", 0.96),
    (ZVOL, BONNIE, None, "seeks.ops", 4712.0),
    (ZVOL, BONNIE, None, "write.block.latency", 4.526),
    (ZVOL, BONNIE, None, "create.sequential.ops", 20098.0),
    (ZVOL, BONNIE, None, "stat.sequential.ops", None),
    (RAW, QUOTED, 64, "iops", 12200.0),
    (BCACHE, QUOTED, 64, "iops", 18500.0),
    (RAW, QUOTED, 16, "iops", 23500.0),
    (BCACHE, QUOTED, 8, "iops", 8700.0),
    (BCACHE, "Random read 4 KiB, rates as quoted", 64, "iops", 29500.0),
    (RAW, "Random write 4 KiB, fio's report at depth 64", 64, "iops", 2097215 / 175.991),  # printed as 11916
    (BCACHE, "Random write 4 KiB, fio's report at depth 64", 64, "iops", 2097215 / 100.987),  # printed as 20767
    (BCACHE, "Random write 4 KiB, fio's report at depth 64", 64, "runtime", 100.987),
]  # fmt: skip


def test_figures_are_as_the_articles_print_them(shelved, db):
    check_each(is_stored, FIGURES)


def is_stored(figure):
    topology, workload, depth, name, value = figure
    rows = Measurement.objects.filter(
        attempt__run__topology__name=topology, attempt__run__workload__name=workload, name=name
    )
    if depth:
        rows = rows.filter(attempt__run__outstanding=depth)
    found = {row.value for row in rows}
    assert len(found) == 1, found
    assert found.pop() == (value if value is None else pytest.approx(value, rel=1e-6))


# Results, metrics and series of each article's campaigns; metrics with n/a among them.
COUNTS = {
    "azure-iometer": (17, 90, 0),
    "bcache-fio": (16, 36, 0),
    "centos7-caches": (11, 156, 481),
    "freebsd-zfs": (2, 60, 181),
    "zvol-bonnie": (1, 36, 0),
}


@pytest.mark.parametrize("slug", ALL)
def test_every_number_of_an_article_is_stored(shelved, db, slug):
    attempts = Attempt.objects.filter(run__campaign__origin__library=slug)
    found = (
        attempts.count(),
        Measurement.objects.filter(attempt__in=attempts).count(),
        Series.objects.filter(attempt__in=attempts).count(),
    )
    assert found == COUNTS[slug]


def test_devices_were_watched_beside(shelved, db):
    def of(topology: str, metric: str) -> dict[str, float]:
        rows = Series.objects.filter(attempt__run__topology__name=topology, metric=metric)
        return {row.device: row.values[0] for row in rows}

    cache = of(CACHE, "read.iops")
    assert cache["dfa"] == 878  # fsyncs on the LVM cache read the SSD
    assert of(CACHE, "util")["dfa"] == pytest.approx(0.528)
    stripe = of(STRIPE, "write.iops")
    assert sorted(stripe.values()) == [7248] * 10 + [14413] * 2  # two of twelve do twice the work
    assert set(of(POOL, "write.iops").values()) == {1092, 1094}
    freebsd = of(SYNC, "write.iops")
    assert (freebsd["mfid1"], freebsd["mfid8"], freebsd["mfid0"]) == (416.6, 438.6, 0)
    assert of(SYNC, "write.bandwidth")["mfid9"] == pytest.approx(7510.4 * 1024)


def test_what_contradicts_itself_says_so(shelved, db):
    row = Measurement.objects.get(
        attempt__run__workload__name=AZURE,
        attempt__run__topology__name=HDD,
        attempt__run__outstanding=1,
        name="read.iops",
    )
    assert (row.value, "231" in row.note) == (318, True)


def test_every_campaign_says_where_it_is_from(shelved, db):
    for campaign in Campaign.objects.filter(source=Campaign.Source.LIBRARY):
        assert campaign.origin["title"]
        assert campaign.origin["date"]
        assert campaign.origin["url"] or "address" in campaign.origin["about"]
        assert campaign.sources.exists()
        for source in campaign.sources.all():
            assert bytes(source.content) == ALL[campaign.origin["library"]].files[source.name]
    assert not Host.objects.filter(team__library=True).exclude(access=Host.Access.DESCRIBED)


def test_loading_again_changes_nothing(shelved, db, django_assert_max_num_queries):
    before = list(Campaign.objects.values_list("pk", flat=True))
    with django_assert_max_num_queries(5):
        assert reference_library.load_library(list(ALL.values())) == []
    assert list(Campaign.objects.values_list("pk", flat=True)) == before


def edited(article, name: str, old: bytes, new: bytes):
    assert article.files[name].count(old) == 1
    return replace(article, files={**article.files, name: article.files[name].replace(old, new)})


def test_an_article_that_changed_is_replaced_and_no_other(shelved, db):
    others = set(Campaign.objects.exclude(origin__library="zvol-bonnie").values_list("pk", flat=True))  # fmt: skip
    new = edited(ALL["zvol-bonnie"], "article.toml", b'name = "ThinkPad T510, CentOS 6"', b'name = "T510"')  # fmt: skip
    assert reference_library.load_library(list((ALL | {"zvol-bonnie": new}).values())) == [
        "loaded zvol-bonnie"
    ]
    rest = Campaign.objects.exclude(origin__library="zvol-bonnie")
    assert set(rest.values_list("pk", flat=True)) == others
    assert Campaign.objects.filter(origin__library="zvol-bonnie").count() == 1
    assert Host.objects.filter(name="T510").exists()
    assert not Host.objects.filter(name__startswith="ThinkPad").exists()


def test_an_article_that_is_gone_is_removed(shelved, db):
    rest = [article for slug, article in ALL.items() if slug != "azure-iometer"]
    assert reference_library.load_library(rest) == ["removed azure-iometer"]
    assert not Campaign.objects.filter(origin__library="azure-iometer").exists()
    assert not Workload.objects.filter(name__startswith="IOmeter").exists()
    assert Run.objects.filter(campaign__origin__library="zvol-bonnie").exists()


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("article.toml", b'topology = "deadline"', b'topology = "noop"', "noop"),
        ("article.toml", b'"deadline.bonnie.txt"', b'"cfq.bonnie.txt"', "cfq.bonnie.txt"),
        ("article.toml", b"[[campaigns.results]]", b"[[campaigns.results", "article.toml"),
        ("article.toml", b'kind = "zvol"', b'kind = "zfs"', "Layer 2"),
        ("deadline.bonnie.txt", b"40404   4", b"40405   4", "not what the CSV line says"),
    ],
)
def test_an_article_that_cannot_be_stores_nothing(shelved, db, name, old, new, says):
    before = set(Campaign.objects.values_list("pk", flat=True))
    broken = edited(ALL["zvol-bonnie"], name, old, new)
    with pytest.raises((ArticleError, ValidationError), match=says):
        reference_library.load_library(list((ALL | {"zvol-bonnie": broken}).values()))
    assert set(Campaign.objects.values_list("pk", flat=True)) == before


def test_the_command_says_what_it_did_and_then_nothing(shelved, db, capsys):
    call_command("load_library")
    assert capsys.readouterr().out == ""
    Campaign.objects.filter(origin__library="zvol-bonnie").delete()
    call_command("load_library")
    assert capsys.readouterr().out == "Reference library: loaded zvol-bonnie\n"


def test_a_team_may_have_the_librarys_name(db):
    reference_library.load_library([])
    Team.objects.filter(library=True).delete()
    Team.objects.create(name=reference_library.NAME)
    reference_library.load_library([])
    assert Team.objects.filter(library=True).exists()


def test_disks_that_an_article_tells_are_kept_with_its_results(shelved, db):
    """As iostat names them beside the run, so that findings know whose work each was."""
    run = Attempt.objects.get(run__topology__name=CACHE, run__workload__name=PG)
    layers = chain.assign_source_disks(chain.specs(run.layout.stack), run.meta[attempt_meta.DISKS])
    assert [set(uses) for uses in layers] == [{"data"}, {"cache"}, set()]
    assert layers[1]["cache"] == ("dfa",) and len(layers[0]["data"]) == 12
    seen = set(Series.objects.filter(attempt=run).values_list("device", flat=True))
    assert seen == {"dfa", *layers[0]["data"]}
    assert attempt_meta.DISKS not in Attempt.objects.filter(run__topology__name=RAW)[0].meta
