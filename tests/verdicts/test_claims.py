"""The articles' conclusions, and what is said to each from their stored figures: docs/claims.md has both."""

from __future__ import annotations

import pytest
from django.db.models import Q

from benchlab.analysis import finding
from benchlab.analysis.formats import rate, share
from benchlab.campaigns.models import Campaign, Run
from benchlab.charts import metric_naming, run_page
from benchlab.charts.line_analysis import curve_answer_text
from benchlab.charts.queries import read_groups
from benchlab.findings import stored_runs
from benchlab.findings.models import Finding
from benchlab.imports.reference_library import articles
from benchlab.runs.models import Attempt
from benchlab.team.guests import Guest
from benchlab.up.bootstrap import ROOT
from benchlab.verdicts import set_ups
from tests.imports.test_library import CACHE, POOL, STRIPE, SYNC
from tests.verdicts.claims import (
    CLAIMS,
    NAMES,
    Claim,
    Curve,
    Finds,
    Holds,
    Lacks,
    Ratio,
    Seen,
    Shares,
)

PAGE = ROOT / "docs" / "claims.md"


def library():
    return Campaign.objects.filter(source=Campaign.Source.LIBRARY)


def run_under(line: str, workload: str):
    found = Attempt.objects.filter(run__topology__name=line, run__workload__name=workload)
    [run] = stored_runs.read_runs(
        list(found.filter(run__campaign__in=library()).values_list("pk", flat=True))
    )
    return run


class Answers:
    """Answers of the product, in the words of the page; fails if they differ from the claim's entry."""

    def __init__(self, api):
        self.api = api

    def lines(self, claim: Claim) -> list[str]:
        lines = [getattr(self, f"of_{type(one).__name__.lower()}")(one) for one in claim.answers]
        return [*lines, claim.why] if claim.why else lines

    def of_ratio(self, one: Ratio) -> str:
        answers, topology = self.answers(one)
        points = {
            (point["ratio"], point["verdict"], point["reason"].partition(",")[0])
            for answer in answers
            for line in answer["lines"]
            for point in line["points"]
            if line["topology"] == topology and one.outstanding in (None, point["outstanding"])
            if point["value"] == pytest.approx(one.value)
            if point["baseline_value"] == pytest.approx(one.other)
        }
        assert len(points) == 1, (one, points)
        [(ratio, verdict, reason)] = points
        assert ratio == pytest.approx(one.value / one.other)
        assert verdict == "not enough data" and reason.startswith("one run each"), reason
        at = f" at {one.outstanding}" if one.outstanding else ""
        word = metric_naming.metric_word(one.metric)
        return f"{ratio:.2f} × {word}{at}: “{one.line}” against “{one.base}”"

    def answers(self, one: Ratio):
        """(what the API tells of these two, the line's topology)."""
        runs = {
            name: Run.objects.filter(campaign__in=library(), topology__name=name)
            for name in (one.line, one.base)
        }
        topologies = {name: some[0].topology_id for name, some in runs.items()}
        campaigns = {pk for some in runs.values() for pk in some.values_list("campaign", flat=True)}
        both = {"topology": list(topologies.values()), "campaign": sorted(campaigns)}
        query = {**both, "baseline": topologies[one.base], "metric": one.metric}
        told = self.api.get("/api/verdicts/", query)
        assert told.status_code == 200, told.content
        return told.json()["results"], topologies[one.line]

    def of_curve(self, one: Curve) -> str:
        runs = {"runs__topology__name": one.line, "runs__workload__name": one.workload}
        campaign = library().get(**runs, runs__outstanding=16)
        found = read_groups(Guest({"runs.Attempt": Q(run__campaign=campaign)}), [campaign.pk])
        wanted = one.line, one.workload
        [words] = [
            curve_answer_text(g) for g in found if (g.topology_name, g.workload_name) == wanted
        ]
        assert words == one.says
        return f"knee: {words}"

    def of_finds(self, one: Finds) -> str:
        for campaign in library():
            set_ups.find_between_lines(campaign)
        found = Finding.objects.filter(
            campaign__in=library(), kind=one.kind, workload__name=one.workload
        )
        said = found.values_list("says", flat=True)
        wanted = one.says.format(**NAMES)
        assert wanted in said
        return f"`{one.kind}`: {wanted}"

    def of_shares(self, one: Shares) -> str:
        """As the page of the run has it."""
        [attempt] = Attempt.objects.filter(
            run__campaign__in=library(),
            run__topology__name=one.line,
            run__workload__name=one.workload,
        )
        found = run_page.attempt_context(attempt.run, attempt)["work"]
        [row] = [row for row in found if row.use.members[0].startswith(one.disks)]
        doing = row.use.members if one.spread == "even" else row.written.doers
        assert (row.written.spread, len(doing)) == (one.spread, one.doers)
        return f"balance of {len(row.use.members)} disks, bytes written: {row.written_text}"

    def of_seen(self, one: Seen) -> str:
        run = run_under(one.line, one.workload)
        told = []
        for metric, value in one.metrics:
            means = [
                t.mean() for t in run.measured_tracks(metric) if t.device.startswith(one.devices)
            ]
            known = [mean for mean in means if mean]  # the system's disk did nothing
            assert sum(known) == pytest.approx(value)
            shown = rate(value) if metric.endswith("bandwidth") else share(value / len(known))
            told.append(f"{metric} {shown}")
        return f"{one.devices}, by its counters: {', '.join(told)}"

    def of_lacks(self, one: Lacks) -> str:
        return one.what


def entry(claim: Claim, lines: list[str]) -> str:
    """The claim as an item of the page's list, with a nested item for each line of the answer."""
    finding_kind = f" (`{claim.waits}`)" if claim.waits else ""
    answer = "\n".join(f"  - {line}" for line in lines)
    return f"- **{claim.holds}**: {claim.says}\n{answer}{finding_kind}\n"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.article}: {claim.says[:60]}")
def test_a_claim_is_answered_by_what_is_stored(shelved, db, api, claim):
    wanted = entry(claim, Answers(api).lines(claim))
    assert wanted in PAGE.read_text(), "docs/claims.md says another thing"


@pytest.mark.parametrize(
    ("line", "layer"),
    [(CACHE, "lvm"), (STRIPE, "lvm"), (POOL, "zpool"), (SYNC, "zpool")],
)
def test_the_page_of_an_articles_run_has_how_its_disks_worked(shelved, db, web, line, layer):
    """By the disks that its source tells."""
    attempts = Attempt.objects.filter(run__campaign__in=library(), run__topology__name=line)
    [run] = {a.run_id for a in attempts if a.series.exists()}
    told = web.get(f"/runs/{run}/")
    assert layer in {row.use.layer for row in told.context["work"]}
    assert b'id="device-work"' in told.content


@pytest.mark.parametrize(
    "claim", [one for one in CLAIMS if one.waits], ids=lambda claim: claim.waits
)
def test_what_counters_prove_is_found(shelved, db, claim):
    [about] = claim.answers
    found = finding.run_findings()[claim.waits].applies(run_under(about.line, about.workload))
    assert found, f"{claim.waits} does not say: {claim.says}"


def test_every_article_has_claims_and_the_page_says_how_many():
    assert {one.article for one in CLAIMS} == {one.slug for one in articles()}
    assert len({one.says for one in CLAIMS}) == len(CLAIMS) >= 25
    counts = ", ".join(f"{sum(one.holds == holds for one in CLAIMS)} {holds}" for holds in Holds)
    assert counts in PAGE.read_text(), counts


def test_the_page_has_no_claim_that_is_not_asked():
    lines = PAGE.read_text().splitlines()
    entries = [line for line in lines if line.startswith("- **")]
    assert len(entries) == len(CLAIMS)


def test_nothing_is_decided_by_what_is_not_there_nor_by_one_repeat_of_each():
    """An article is right, or wrong, by counters, or within one curve."""
    for one in CLAIMS:
        kinds = {type(answer) for answer in one.answers}
        assert kinds and (one.holds == Holds.OPEN or not kinds & {Ratio, Lacks})
