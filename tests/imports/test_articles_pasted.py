"""Articles as a person would paste them: every table becomes results, on a chart, with its curve and its devices.

The texts are those of the reference library and of the readers' cases, in their article's order and with prose between.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from benchlab.campaigns.models import Campaign
from benchlab.imports import draft_store, drafts, readings
from benchlab.imports.forms import DraftForms
from benchlab.imports.models import Draft
from benchlab.imports.reference_library import LIBRARY
from benchlab.runs import conclusion
from benchlab.runs.models import Attempt

CASES = Path(__file__).parents[1] / "cases" / "readers"
PROSE = "\n\n某某测试, 结果如下 (59%):\n\n"
HEADS = "Device:"
# A table of the article 002, whole; its figures are also those of library/azure-iometer.
SSD = """IOmeter, SSD P30
Outstanding IOs | 1 | 2 | 4 | 8 | 16 |
---|---|---|---|---|---|
IOPS | 1683 | 3327 | 5095 | 5101 | 5099 |
读IOPS | 842 | 1661 | 2545 | 2554 | 2541 |
写IOPS | 841 | 1666 | 2550 | 2547 | 2559 |
延时(ms) | 2.38 | 2.40 | 3.14 | 6.27 | 12.55 |
"""


def article_000() -> str:
    """The headings of iostat stand above its first table only."""
    folder = LIBRARY / "centos7-caches"
    names = ["ssd.pg_test_fsync", "ssd.dd", "lvm-cache.pg_test_fsync", "lvm-cache.iostat", "lvm-cache.dd",
             "stripe.pg_test_fsync", "stripe.iostat", "zpool-slog.pg_test_fsync", "zpool-slog.dd",
             "zpool.pg_test_fsync", "zpool.iostat"]  # fmt: skip
    texts = [(folder / f"{name}.txt").read_text() for name in names]
    below = [text.partition("\n")[2] if text.startswith(HEADS) else text for text in texts[4:]]
    return PROSE.join([*texts[:4], *below])


def texts() -> Mapping[str, str]:
    zfs, bcache = LIBRARY / "freebsd-zfs", LIBRARY / "bcache-fio"
    disabled, standard, pool, disks = (
        (zfs / f"{name}.txt").read_text()
        for name in ("disabled.pg_test_fsync", "standard.pg_test_fsync", "standard.zpool_iostat", "standard.iostat")
    )  # fmt: skip
    return {
        "000": article_000(),
        "001": PROSE.join([standard, pool + disks, disabled]),
        "002": (CASES / "iometer" / "article.txt").read_text() + PROSE + SSD,
        "003": PROSE + (LIBRARY / "zvol-bonnie" / "deadline.bonnie.txt").read_text() + PROSE,
        "004": "".join((bcache / f"{name}-64.fio.txt").read_text() for name in ("bcache", "raw")),
    }


def pasted(web, text: str, **typed: str) -> tuple[Draft, Campaign]:
    """As the pages do it: paste, look, agree with everything as it is proposed; each result its own topology."""
    web.post(reverse("import-new"), {"text": text})
    draft = Draft.objects.latest("pk")
    file = draft.files.get()
    if file.reading is None:
        drafts.read_file(file.pk)
    page = web.get(reverse("import-detail", args=[draft.pk]))
    every: DraftForms = page.context["draft_forms"]
    sent: dict[str, Any] = {
        "campaign": "Pasted",
        "new_host": "described",
        "new_topology": "t",
        **typed,
    }
    for number, form in enumerate(every.forms.values()):
        sent[f"{form.prefix}-take"] = "on"
        sent[f"{form.prefix}-new_topology"] = f"layout {number}"
        if "beside" in form.fields:
            sent[f"{form.prefix}-beside"] = form.fields["beside"].initial
    answer = web.post(reverse("import-detail", args=[draft.pk]), sent)
    assert answer.status_code == 302, answer.context["draft_forms"].common.errors
    if draft_store.draft_state(draft) is draft_store.State.STORING:
        draft_store.store_draft(draft.pk)
    return draft, Campaign.objects.get(name="Pasted")


@pytest.mark.parametrize(
    ("article", "found", "runs", "watched"),
    [("000", 11, 8, 3), ("001", 4, 2, 2), ("002", 3, 10, 0), ("003", 1, 1, 0), ("004", 2, 2, 0)],
)
def test_every_table_becomes_results_on_a_chart(
    web, article: str, found: int, runs: int, watched: int
) -> None:
    text = texts()[article]
    web.post(reverse("import-new"), {"text": text})
    draft = Draft.objects.latest("pk")
    every = readings.offered_results(draft)
    assert [one.parsed.trouble for one in every] == [""] * found
    assert sum(one.watches for one in every) == watched
    _, campaign = pasted(web, text)
    attempts = Attempt.objects.filter(run__campaign=campaign)
    assert attempts.count() == runs
    for attempt in attempts:
        assert attempt.measurements.exists() and not conclusion.reparse_attempt(attempt)
    figures = drawn(web, campaign)
    for attempt in attempts:
        own = attempt.measurements.exclude(value=None).values_list("value", flat=True)
        assert figures & set(own), f"{attempt.run} is on no chart"


def cards(web, campaign: Campaign) -> list[Any]:
    return list(web.get(reverse("campaign-detail", args=[campaign.pk])).context["cards"])


def drawn(web, campaign: Campaign) -> set[float]:
    """Every number that a chart of the campaign's page shows."""
    shown: set[float] = set()
    for card in cards(web, campaign):
        figure = web.get(card.figure_url).json()
        assert figure["data"], card.title
        for trace in figure["data"]:
            shown |= {v for axis in ("x", "y") for v in trace.get(axis, ()) if isinstance(v, float)}
    return shown


def test_a_table_over_outstanding_ios_is_a_curve(web) -> None:
    _, campaign = pasted(web, SSD)
    rows = campaign.runs.order_by("position")
    assert [(run.outstanding, run.point) for run in rows] == [
        (n, {"outstanding": n}) for n in (1, 2, 4, 8, 16)
    ]
    (card,) = cards(web, campaign)
    lines = [t for t in web.get(card.figure_url).json()["data"] if "lines" in t.get("mode", "")]
    assert [1683, 3327, 5095, 5101, 5099] in [trace["y"] for trace in lines]
    assert [1, 2, 4, 8, 16] in [trace["x"] for trace in lines]


def test_a_table_of_iostat_is_the_devices_of_its_run(web) -> None:
    """Those read by the headings of a table far above, too."""
    _, campaign = pasted(web, article_000())
    beside = Attempt.objects.filter(run__campaign=campaign, series__sampler="iostat").distinct()
    assert [attempt.run.tool for attempt in beside] == ["pg_test_fsync"] * 3
    for attempt in beside:
        figure = web.get(reverse("attempt-device-figure", args=[attempt.pk])).json()
        assert {"sdb", "sdm"} <= {trace["name"] for trace in figure["data"]}


def test_outstanding_ios_of_a_sweep_are_not_asked_for(web) -> None:
    web.post(reverse("import-new"), {"text": SSD})
    draft = Draft.objects.latest("pk")
    (form,) = (
        web.get(reverse("import-detail", args=[draft.pk])).context["draft_forms"].forms.values()
    )
    assert "outstanding" not in form.fields
    page = web.get(reverse("import-detail", args=[draft.pk])).content.decode()
    assert "1, 2, 4, 8, 16" in page and "a run of its own" in page
