"""Run and compare pages, figures and downloads: what they hold, and that another team sees none of it."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path

import plotly.graph_objects as go
import pytest
from django.urls import reverse

from benchlab.runs import artifact_figures, artifacts, conclusion
from benchlab.runs.models import Artifact, Attempt, LiveChunk, Measurement
from benchlab.runs.states import Outcome
from benchlab.verdicts import set_ups
from tests.charts import made, made_live


def urls(lab) -> list[str]:
    attempt = lab.attempts[0]
    return [
        reverse("run-detail", args=[attempt.run_id]),
        reverse("campaign-figure", args=[lab.campaign.pk]),
        reverse("campaign-csv", args=[lab.campaign.pk]),
        reverse("attempt-device-figure", args=[attempt.pk]),
        reverse("attempt-cpu-figure", args=[attempt.pk]),
        reverse("attempt-live-figure", args=[attempt.pk]),
        reverse("attempt-series-csv", args=[attempt.pk]),
        reverse("artifact-download", args=[attempt.artifacts.get().pk]),
    ]


def test_the_team_sees_every_page(web, lab):
    assert [web.get(url).status_code for url in urls(lab)] == [200] * 8


def test_another_team_gets_404_everywhere(other_web, lab):
    assert [other_web.get(url).status_code for url in urls(lab)] == [404] * 8


def test_another_team_finds_nothing_to_compare(other_web, lab):
    answer = other_web.get(reverse("compare"), {"campaign": lab.campaign.pk})
    assert answer.context["cards"] == []
    assert lab.campaign.name not in answer.content.decode()
    figure = other_web.get(reverse("compare-figure"), {"campaign": lab.campaign.pk}).json()
    assert figure["data"] == []
    text = other_web.get(reverse("compare-csv"), {"campaign": lab.campaign.pk}).content.decode()
    assert len(text.splitlines()) == 1


def test_nobody_logged_out_gets_in(client, lab):
    assert all(client.get(url).status_code == 302 for url in urls(lab))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?metric=bandwidth",
        "?latency=clat.all",
        "?latency=lat",
        "?against=latency",
        "?against=cdf",
        "?against=cdf.16",
        "?against=cdf.16&operation=write",
        "?against=cdf.4&latency=slat",
        "?latency=slat.p99.9",
        "?topology=0",
    ],
)
def test_campaign_figures_are_valid_plotly(web, lab, query):
    figure = web.get(reverse("campaign-figure", args=[lab.campaign.pk]) + query).json()
    go.Figure(figure)


@pytest.mark.parametrize(
    "query",
    [
        "?metric=colour",
        "?latency=p99",
        "?latency=clat.p12",
        "?topology=x",
        "?operation=trim",
        "?against=time",
        "?against=cdf.x",
        "?against=cdf.",
        "?against=latency.4",
    ],
)
def test_a_wrong_word_is_a_400(web, lab, query):
    assert web.get(reverse("campaign-figure", args=[lab.campaign.pk]) + query).status_code == 400


def test_figures_cost_the_same_queries_whatever_the_campaign(web, lab, django_assert_num_queries):
    url = reverse("campaign-figure", args=[lab.campaign.pk])
    web.get(url)
    with django_assert_num_queries(5):  # session, user, campaign, attempts, measurements
        web.get(url)


def test_the_run_page_costs_a_fixed_number_of_queries(web, lab, django_assert_max_num_queries):
    url = reverse("run-detail", args=[lab.attempts[0].run_id])
    # Five of them: what people said of it; one: what was found; one: how long its I/Os took.
    with django_assert_max_num_queries(18):
        web.get(url)


def test_the_run_page_traces_its_numbers_to_the_artifact(web, lab):
    attempt = lab.attempts[0]
    artifact = attempt.artifacts.get()
    answer = web.get(reverse("run-detail", args=[attempt.run_id]))
    text = answer.content.decode()
    assert reverse("artifact-download", args=[artifact.pk]) in text
    assert artifact.sha256 in text
    assert answer.context["little"].holds
    assert [title for title, _ in answer.context["numbers"]][:2] == ["IOPS", "Throughput"]
    assert "fio --output-format=json+" in text


def test_the_run_page_does_not_load_artifact_contents(web, lab, django_assert_num_queries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Artifact, "refresh_from_db", lambda *_, **__: pytest.fail("content was loaded")
        )
        web.get(reverse("run-detail", args=[lab.attempts[0].run_id]))


def test_a_failure_is_told_in_words(web, lab):
    attempt = lab.attempts[0]
    Attempt.objects.filter(pk=attempt.pk).update(
        outcome=Outcome.FAILED, reason="tool_failed", reason_text="fio: <no space>"
    )
    text = web.get(reverse("run-detail", args=[attempt.run_id])).content.decode()
    assert "The benchmark tool failed." in text
    assert "fio: &lt;no space&gt;" in text


def test_an_earlier_attempt_can_be_looked_at(web, lab):
    first = lab.attempts[0]
    Attempt.objects.filter(pk=first.pk).update(outcome=Outcome.FAILED, reason="host_lost")
    second = Attempt.objects.create(run=first.run, layout=first.layout, number=2)
    url = reverse("run-detail", args=[first.run_id])
    assert web.get(url).context["shown"].attempt == second
    assert web.get(url, {"attempt": 1}).context["shown"].attempt == first
    assert web.get(url, {"attempt": 7}).status_code == 404
    assert web.get(url, {"attempt": "x"}).status_code == 400


def test_the_outcome_partial_asks_again_until_the_attempt_is_over(htmx, lab):
    running = made_live.running(
        lab.campaign, lab.host, lab.stacks[0], made.workload(lab.team, "other")
    )
    answer = htmx.get(reverse("run-detail", args=[running.run_id]))
    assert "<html" not in answer.content.decode()
    assert 'id="outcome"' in answer.content.decode()
    assert "HX-Refresh" not in answer
    over = htmx.get(reverse("run-detail", args=[lab.attempts[0].run_id]))
    assert over["HX-Refresh"] == "true"


def test_a_run_that_was_never_tried_says_what_it_waits_for(web, lab):
    run = made.run(lab.campaign, lab.attempts[0].layout, made.workload(lab.team, "other"), 64, 1)
    assert (
        "waits for its campaign" in web.get(reverse("run-detail", args=[run.pk])).content.decode()
    )


def test_only_the_last_good_attempt_counts(web, lab):
    first = lab.attempts[0]
    Attempt.objects.filter(pk=first.pk).update(outcome=Outcome.INTERRUPTED)
    second = Attempt.objects.create(
        run=first.run, layout=first.layout, number=2, phase="done", outcome=Outcome.SUCCEEDED
    )
    Measurement.objects.create(attempt=second, name="iops", value=77.0, unit="op/s")
    rows = csv_rows(web.get(reverse("campaign-csv", args=[lab.campaign.pk])))
    mine = [row for row in rows if row["run"] == str(first.run_id)]
    assert [row["iops (op/s)"] for row in mine] == ["77.0"]


def csv_rows(answer) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def test_csv_guards_against_formulas(web, lab):
    lab.stacks[0].name = "=cmd()"
    lab.stacks[0].save(update_fields=["name"])
    answer = web.get(reverse("campaign-csv", args=[lab.campaign.pk]))
    assert answer["Content-Disposition"].startswith("attachment")
    assert {row["topology"] for row in csv_rows(answer)} == {"'=cmd()", "raw"}


def test_an_artifact_comes_back_byte_for_byte(web, lab):
    raw = b"<script>alert(1)</script>\r\n\xff"
    digest = hashlib.sha256(raw).hexdigest()
    row = Artifact.objects.create(
        attempt=lab.attempts[0], name="std out\n.html", content=raw, size=len(raw), sha256=digest
    )
    answer = web.get(reverse("artifact-download", args=[row.pk]))
    assert answer.content == raw
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["Content-Type"].startswith("text/plain")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Content-SHA256"] == digest


def test_device_figures_are_valid_plotly(web, lab):
    names = (
        "attempt-device-figure",
        "attempt-disk-figure",
        "attempt-cpu-figure",
        "attempt-live-figure",
    )
    for name in names:
        figure = web.get(reverse(name, args=[lab.attempts[0].pk])).json()
        go.Figure(figure)
        assert figure["data"]


def test_the_live_figure_shows_what_was_sampled_so_far(web, lab):
    attempt = made_live.running(
        lab.campaign, lab.host, lab.stacks[0], made.workload(lab.team, "other")
    )
    url = reverse("attempt-live-figure", args=[attempt.pk])
    figure = web.get(url).json()
    go.Figure(figure)
    assert figure["data"][0]["x"][0] == 1.0
    assert figure["data"][0]["y"][0] == 1000.0
    assert web.get(url, {"since": 15}).json()["data"][0]["x"] == [16.0, 17.0, 18.0, 19.0]
    assert web.get(url, {"since": "x"}).status_code == 400


def test_the_live_figure_shows_the_layouts_own_disks_when_asked(web, lab):
    """The system's disk is left out, whatever it does beside it, and so is a disk of another layout."""
    load = made.workload(lab.team, "other")
    attempt = made_live.running(lab.campaign, lab.host, lab.stacks[0], load, frames=0)
    busy = "# /proc/diskstats\n" + "".join(
        f"    8 {n} {name} {{ios}} 0 {{ios}} 9 0 0 0 0 1 9 9\n"
        for n, name in enumerate(("sda", "sdb", "sdc", "dm-0"))
    )
    frames = "".join(f"@ {at * 10**9}\n{busy.format(ios=at * 10)}.\n" for at in range(100, 105))
    LiveChunk.objects.create(attempt=attempt, offset=0, data=frames.encode())
    url = reverse("attempt-live-figure", args=[attempt.pk])

    def devices(query: str) -> set[str]:
        return {line["legendgroup"] for line in web.get(url + query).json()["data"]}

    assert len(devices("")) == 4
    assert len(devices("?disks=own")) == 2  # the one that its plan claims, and what stands on it


def test_a_long_live_figure_reads_only_the_tail(web, lab, monkeypatch):
    monkeypatch.setattr("benchlab.charts.attempt_figures.LIVE_TAIL_BYTES", 400)
    attempt = made_live.running(
        lab.campaign, lab.host, lab.stacks[0], made.workload(lab.team, "other")
    )
    times = web.get(reverse("attempt-live-figure", args=[attempt.pk])).json()["data"][0]["x"]
    assert times[-1] == 19.0
    assert times[0] > 1.0


CACHE = (
    Path(__file__).parents[1] / "cases/samplers/dm_cache/lvm-cache-and-writecache.txt"
).read_bytes()


def test_a_running_point_shows_its_caches_by_the_same_charts(web, htmx, lab):
    load = made.workload(lab.team, "other")
    attempt = made_live.running(lab.campaign, lab.host, lab.stacks[0], load, frames=0)
    address = f"/runs/{attempt.run_id}/"
    chart = reverse("attempt-cache-figure", args=[attempt.pk, "caches"])
    assert chart not in web.get(address).content.decode()  # nothing is known of a cache yet
    assert "nothing was sampled" in web.get(chart).content.decode()
    LiveChunk.objects.create(attempt=attempt, offset=0, data=CACHE)
    part = htmx.get(f"{address}?part=live-caches").content.decode()
    assert part.strip().startswith('<div id="live-caches"') and f'data-figure-url="{chart}"' in part
    assert 'id="live-caches"' in web.get(address).content.decode()
    running = web.get(chart).json()
    go.Figure(running)
    Attempt.objects.filter(pk=attempt.pk).update(outcome="succeeded", phase="done")
    LiveChunk.objects.all().delete()
    artifacts.store_artifacts(attempt, {"samples": CACHE})
    conclusion.store_figures(attempt, artifact_figures.read_figures(attempt, with_metrics=False))
    over = web.get(chart).json()
    shown = lambda figure: [(t["name"], t["x"], t["y"]) for t in figure["data"]]  # noqa: E731
    assert shown(running) == shown(over) and shown(over)
    assert "Cache hit ratio" in str(running["layout"]) and "Dirty data" in str(running["layout"])
    assert htmx.get(f"{address}?part=live-caches")["HX-Refresh"] == "true"


def test_a_live_figure_without_samples_waits(web, lab):
    attempt = made_live.running(
        lab.campaign, lab.host, lab.stacks[0], made.workload(lab.team, "other"), frames=0
    )
    figure = web.get(reverse("attempt-live-figure", args=[attempt.pk])).json()
    assert "Waiting" in figure["layout"]["annotations"][0]["text"]
    LiveChunk.objects.create(attempt=attempt, offset=0, data=b"no frame\n.\n")
    figure = web.get(reverse("attempt-live-figure", args=[attempt.pk])).json()
    assert "cannot be read" in figure["layout"]["annotations"][0]["text"]


def test_compare_lists_what_differs(web, lab):
    elsewhere = made.host(lab.team, "vm-12")
    other = made.campaign(lab.team, "Elsewhere")
    made.swept(other, elsewhere, lab.stacks[0], lab.load, depths=(1, 4, 16))
    answer = web.get(reverse("compare"), {"campaign": [lab.campaign.pk, other.pk]})
    card = answer.context["cards"][0]
    assert card.differences.compared.names == ("Host", "Layout")
    assert card.differences.others.names == ("Kernel",)
    assert card.lines == 3
    figure = web.get(card.figure_url).json()
    go.Figure(figure)
    assert web.get(card.csv_url).status_code == 200


def test_compare_can_be_narrowed_down(web, lab):
    answer = web.get(
        reverse("compare"), {"campaign": lab.campaign.pk, "topology": lab.stacks[0].pk}
    )
    assert answer.context["cards"][0].lines == 1
    assert answer.context["cards"][0].differences is None
    assert "What else differs" not in answer.content.decode()


def test_compare_without_a_choice_says_what_to_do(web, lab):
    assert "Tick two campaigns" in web.get(reverse("compare")).content.decode()


def test_repeats_that_disagree_are_told_once(web, team):
    """By the card while nobody looked at the lines, then by the finding, which has the button."""
    where, load, one = made.host(team), made.workload(team), made.campaign(team)
    attempts = made.swept(one, where, made.topology(team, "T1"), load)
    Measurement.objects.filter(attempt=attempts[8], name="iops").update(value=1.0)
    url = reverse("campaign-detail", args=[one.pk])
    assert "Repeats differ at 1 point" in web.get(url).text
    set_ups.find_between_lines(one)
    page = web.get(url).text
    assert "Repeats disagree:" in page and "Add 2 repeats" in page
    assert "Repeats differ at" not in page
