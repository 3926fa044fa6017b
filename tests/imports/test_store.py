"""Results that were measured elsewhere, stored: equal to our own in every table, and rebuilt from their artifacts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.core.exceptions import ValidationError

from agents.contracts import Metric, Unit
from agents.drivers import registry, text_reading
from agents.readers import zpool_iostat
from agents.texts.parsed_result import ParsedResult
from benchlab.campaigns.models import Campaign
from benchlab.charts.queries import read_groups
from benchlab.hosts.models import Host
from benchlab.imports.services import Result, StoreRequest, TextExcerpt, store_results
from benchlab.runs import conclusion, progress
from benchlab.runs.models import Attempt
from benchlab.team.models import Team
from benchlab.topologies.models import Topology

TEXT = "noise\nRATE 12 at depth 4\nRATE 13 at depth 8\n"


class Rates:
    """A reader as plain as can be."""

    LABEL = "Rates"
    KEYWORDS = ("RATE",)

    @staticmethod
    def find_results(text: str, name: str) -> list[ParsedResult]:
        return [
            ParsedResult("rates", n, n, line, point={"iodepth": int(line.split()[4])},
                  outstanding=int(line.split()[4]),
                  metrics=(Metric("iops", float(line.split()[1]), Unit.OPS_PER_SECOND, line=n),))
            for n, line in enumerate(text.split("\n"), start=1)
            if line.startswith("RATE")
        ]  # fmt: skip


@pytest.fixture(autouse=True)
def reader(monkeypatch):
    monkeypatch.setattr(registry, "all_readers", lambda: {"rates": Rates})


@pytest.fixture
def results(team):
    host = Host.objects.create(team=team, name="elsewhere", access=Host.Access.DESCRIBED)
    topology = Topology.objects.create(team=team, name="stripe", stack=[])
    lines = TEXT.split("\n")
    return [
        Result(TextExcerpt(one, "a.txt", lines[one.first - 1]), host, topology, "rates", one.point, one.outstanding)
        for one in text_reading.read_text(TEXT).results
    ]  # fmt: skip


def stored(team, user, results, **more) -> Campaign:
    request = StoreRequest(team=team, user=user, name="old", question="", results=results,
                           sources={"a.txt": TEXT.encode()}, **more)  # fmt: skip
    campaign, _ = store_results(request)
    return campaign


def test_they_are_runs_like_any_other(team, user, results, django_assert_num_queries):
    campaign = stored(team, user, results)
    assert progress.campaign_progress(campaign).state == progress.State.DONE
    (line,) = read_groups(user, [campaign.pk])
    assert [(s.outstanding, s.values) for s in line.samples] == [(4, {"iops": 12.0}), (8, {"iops": 13.0})]  # fmt: skip
    assert bytes(campaign.sources.get().content) == TEXT.encode()


def test_figures_are_read_from_the_artifacts(team, user, results):
    campaign = stored(team, user, results)
    attempt = Attempt.objects.filter(run__campaign=campaign).first()
    (artifact,) = attempt.artifacts.all()
    assert (artifact.name, bytes(artifact.content)) == ("a.lines-2-2.txt", b"RATE 12 at depth 4")
    attempt.measurements.all().delete()
    assert conclusion.reparse_attempt(attempt) == ""
    assert [(m.name, m.value, m.line) for m in attempt.measurements.all()] == [("iops", 12.0, 1)]


def test_the_same_cell_again_is_a_repeat(team, user, results):
    campaign = stored(team, user, [*results, results[0]])
    assert sorted(campaign.runs.values_list("outstanding", "repeat")) == [(4, 1), (4, 2), (8, 1)]
    assert campaign.repeats == 2


def test_what_cannot_be_read_stores_nothing(team, user, results):
    broken = TextExcerpt(results[0].piece.parsed, "a.txt", "RATTE 12")
    with pytest.raises(ValidationError, match="0 results, not one"):
        stored(team, user, [Result(broken, results[0].host, results[0].topology, "rates")])
    assert not Campaign.objects.exists()


def test_the_library_is_everybodys_to_read_and_nobodys_to_change(team, user, results):
    library = Team.objects.create(name="Reference library", library=True)
    Host.objects.update(team=library)
    Topology.objects.update(team=library)
    for result in results:
        result.host.refresh_from_db()
        result.topology.refresh_from_db()
    campaign = stored(library, None, results, source=Campaign.Source.LIBRARY)
    assert campaign in Campaign.objects.visible_to(user)
    assert campaign not in Campaign.objects.for_user(user)
    assert read_groups(user, [campaign.pk])


ZPOOL = """$ zpool iostat -v rpool 1
{gap} capacity     operations    bandwidth
pool {gap} alloc   free   read  write   read  write
rpool {gap} 50.6G   409G     11     50   400K   800K
  mirror-0 {gap} 50.6G   409G     11     50   400K   800K
    {disk} {gap} - - 5 25 200K 800K
"""


@pytest.fixture
def beside(monkeypatch, results):
    """A result, and what was pasted beside it with a disk of this name in it."""
    monkeypatch.setattr(
        registry, "all_readers", lambda: {"rates": Rates, "zpool_iostat": zpool_iostat}
    )

    def made(disk: str) -> Result:
        text = ZPOOL.format(gap=" " * 30, disk=disk)
        (found,) = zpool_iostat.find_results(text, "")
        return replace(results[0], beside=(TextExcerpt(found, "z.txt", text),))

    return made


def test_a_watched_disk_may_have_a_long_name(team, user, beside):
    disk = "nvme-Samsung_SSD_970_EVO_Plus_1TB_S4EWNX0N123456A-part3"
    campaign = stored(team, user, [beside(disk)])
    (attempt,) = Attempt.objects.filter(run__campaign=campaign)
    assert attempt.series.filter(device=f"rpool/mirror-0/{disk}").exists()


def test_a_name_that_cannot_be_stored_is_said(team, user, beside):
    with pytest.raises(ValidationError, match="the name of a device is 315 characters long"):
        stored(team, user, [beside("x" * 300)])
