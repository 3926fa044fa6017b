"""Raw output of a report, in its file or as an archive: byte for byte, for who may read it, within its bounds."""

from __future__ import annotations

import base64
import hashlib
import io
import random
import re
import threading
import tracemalloc
import zipfile
import zlib
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from benchlab.results import answers
from benchlab.runs.models import Artifact, ArtifactPiece, Attempt
from benchlab.runs.outputs import RawRemoved
from benchlab.sharing import links, raw_data
from benchlab.sharing.models import SavedView
from benchlab.team.models import Team
from benchlab.web.units import format_size as in_words
from tests.charts import made
from tests.results.test_downloads import asked

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign(team):
    found = made.campaign(team)
    made.swept(
        found, made.host(team), made.topology(team, "raw"), made.workload(team), depths=(1, 4)
    )
    Attempt.objects.update(argv=["tool", "--key", "***"])
    return found


@pytest.fixture
def large(campaign) -> Artifact:
    """One that lies in pieces."""
    attempt = Attempt.objects.filter(run__campaign=campaign).earliest("pk")
    content = b"line of a log\n" * 40_000
    parts = [content[:300_000], content[300_000:]]
    for number, part in enumerate(parts):
        ArtifactPiece.objects.create(
            attempt=attempt, name="log", number=number, packed=zlib.compress(part)
        )
    digest = hashlib.sha256(content).hexdigest()
    return Artifact.objects.create(
        attempt=attempt, name="log", content=b"", size=len(content), sha256=digest
    )


def test_what_there_is_is_counted_by_one_look_at_each_file(campaign, user):
    """Where PostgreSQL knows nothing of a table's rows it would go through all of them for each of them."""
    with CaptureQueriesContext(connection) as asked_for:
        found = raw_data.raw_output_of(
            user, Artifact.objects.filter(attempt__run__campaign=campaign)
        )
    assert found.files == Artifact.objects.count()
    [said] = [one["sql"] for one in asked_for]
    assert len(re.findall(r'(?:FROM|JOIN) "runs_artifact"', said)) == 1


def url(campaign, part: str) -> str:
    return reverse(f"campaign-report{part}", args=[campaign.pk])


def zip_in(page: str) -> zipfile.ZipFile:
    found = re.search(r'href="data:application/zip;base64,([^"]*)" download="([^"]*)"', page)
    assert found and found[2].endswith("-raw.zip")
    return zipfile.ZipFile(io.BytesIO(base64.b64decode(found[1])))


def archive_of(answer: Any) -> zipfile.ZipFile:
    assert answer.status_code == 200 and answer["Content-Type"] == "application/zip"
    return zipfile.ZipFile(io.BytesIO(answer.getvalue()))


def kept(attempt: Attempt, name: str, content: bytes) -> Artifact:
    digest = hashlib.sha256(content).hexdigest()
    return Artifact.objects.create(
        attempt=attempt, name=name, content=content, size=len(content), sha256=digest
    )


def text_of(answer: Any) -> str:
    return str(answer.getvalue().decode())


def check(packed: zipfile.ZipFile, rows: list[Artifact], *more: str) -> None:
    """That it has these, byte for byte, their sums, and nothing else."""
    assert packed.testzip() is None
    wanted = {
        f"run-{one.attempt.run_id}/attempt-{one.attempt.number}/{one.name}": one for one in rows
    }
    assert sorted(packed.namelist()) == sorted([*wanted, raw_data.SUMS, *more])
    lines = packed.read(raw_data.SUMS).decode().splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    for name, row in wanted.items():
        content = packed.read(name)
        assert content == row.read()
        assert hashlib.sha256(content).hexdigest() == row.sha256 == sums[name]


def all_of(campaign) -> list[Artifact]:
    return list(Artifact.objects.filter(attempt__run__campaign=campaign))


def test_the_file_has_it_where_that_was_asked_for(web, campaign, large):
    plain = web.get(url(campaign, "-file")).text
    assert "data:application/zip" not in plain and len(plain.encode()) < 3_000_000
    page = text_of(web.get(url(campaign, "-file"), {"raw": "1"}))
    check(zip_in(page), all_of(campaign))
    assert "connect-src" not in page and "--key" not in zip_in(page).read(raw_data.SUMS).decode()


def test_the_page_says_how_much_it_is_before(web, campaign, large):
    rows = all_of(campaign)
    shown = web.get(url(campaign, "")).text
    size = in_words(sum(one.size for one in rows))
    assert f"with raw output ({size})" in shown
    assert f"Raw output: {size} in {len(rows)} files before it is compressed" in shown


def test_the_archive_has_all_of_it_where_the_file_has_no_room(web, campaign, large, monkeypatch):
    monkeypatch.setattr(raw_data, "IN_FILE", 10)
    check(archive_of(web.get(url(campaign, "-raw"))), all_of(campaign))


@pytest.mark.parametrize("bound", ["MOST", "MOST_FILES"])
def test_an_archive_that_is_too_much_is_refused_with_where_it_is(
    web, campaign, large, monkeypatch, bound
):
    monkeypatch.setattr(raw_data, bound, 1)
    answer = web.get(url(campaign, "-raw"))
    rows = all_of(campaign)
    size = in_words(sum(one.size for one in rows))
    assert answer.status_code == 413
    said = f"The raw output has {size} in {len(rows)} files: an archive holds up to"
    at = f"/api/artifacts/?campaign={campaign.pk}"
    for text in (answer.text, web.get(url(campaign, "")).text):
        assert said in text and f'href="{at}"' in text
        assert f'href="{url(campaign, "-raw")}"' not in text  # what would be refused
    listed = web.get(at).json()["results"]
    assert {one["id"] for one in listed} == {one.pk for one in rows}
    for one in listed:
        assert web.get(one["download"]).status_code == 200
    page = web.get(url(campaign, "-file"), {"raw": "1"})
    check(zip_in(text_of(page)), rows)  # which has bounds of its own


@pytest.mark.parametrize("bound", ["IN_FILE", "READ_FOR_FILE"])
def test_the_file_says_what_it_has_no_room_for(web, campaign, large, monkeypatch, bound):
    """Whole files as far as they fit, within its bounds; the rest by name, and where it is."""
    monkeypatch.setattr(raw_data, bound, 200_000)
    rows = [one for one in all_of(campaign) if one.pk != large.pk]
    answer = web.get(url(campaign, "-file"), {"raw": "1"})
    assert answer.status_code == 200
    page = text_of(answer)
    packed = zip_in(page)
    attempt = large.attempt
    name = f"run-{attempt.run_id}/attempt-{attempt.number}/log ({in_words(large.size)})"
    assert packed.read(raw_data.LEFT_OUT).decode() == f"{name}\n"
    check(packed, rows, raw_data.LEFT_OUT)
    assert f"Left out: 1 file ({in_words(large.size)})" in page
    assert f"<code>{name}</code>" in page
    assert f'<a href="http://testserver{url(campaign, "-raw")}">The archive</a>' in page
    assert f'href="http://testserver/api/artifacts/?campaign={campaign.pk}"' in page


@pytest.mark.parametrize("most", [90_000, 120_000, 150_000])
def test_the_zip_in_the_file_keeps_its_bound(web, campaign, monkeypatch, most):
    """Of bytes that cannot be compressed, in many files of long names."""
    monkeypatch.setattr(raw_data, "IN_FILE", most)
    dice = random.Random(most)
    attempt = Attempt.objects.filter(run__campaign=campaign).earliest("pk")
    for number in range(300):
        kept(attempt, f"{'é' * 190}{number}", dice.randbytes(dice.randrange(1000)))
    page = text_of(web.get(url(campaign, "-file"), {"raw": "1"}))
    packed = zip_in(page)
    assert packed.testzip() is None
    assert packed.fp is not None and most / 10 < packed.fp.seek(0, 2) <= most
    left = packed.read(raw_data.LEFT_OUT).decode().splitlines()
    assert len(left) == raw_data.LISTED + 1 and left[-1] in page
    told = int(re.findall(r"Left out: (\d+) files", page)[0])
    assert left[-1] == f"and {told - raw_data.LISTED} more"
    assert told + len(packed.namelist()) - 2 == len(all_of(campaign))


def test_it_is_made_in_the_memory_of_one_file(campaign, user):
    attempt = Attempt.objects.filter(run__campaign=campaign).earliest("pk")
    dice = random.Random(1)
    for number in range(20):
        kept(attempt, f"log {number}", dice.randbytes(2 << 20))
    for made_of in (
        lambda rows: raw_data.stream_archive(rows),
        lambda rows: raw_data.embed_archive(rows, raw_data.EmbedBudget()),
    ):
        rows = raw_data.readable_artifacts(user, Artifact.objects.filter(attempt=attempt))
        tracemalloc.start()
        size = sum(map(len, made_of(rows)))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert size > 15 << 20 and most < 12 << 20, most


@pytest.mark.parametrize("small", [True, False])
def test_what_is_removed_meanwhile_ends_it(campaign, user, large, small):
    """Half a ZIP, which no program takes for a whole one; not one with an empty file."""
    kept(large.attempt, "a log", b"first")
    later = kept(large.attempt, "z log", b"second") if small else large
    rows = Artifact.objects.filter(attempt=large.attempt, name__in=("a log", later.name))
    made_of = raw_data.stream_archive(raw_data.readable_artifacts(user, rows))
    next(made_of)
    Artifact.objects.filter(pk=later.pk).update(content=b"")
    ArtifactPiece.objects.all().delete()
    with pytest.raises(RawRemoved, match="was removed while"):
        list(made_of)


@pytest.mark.django_db(transaction=True)
def test_a_server_streams_both(web, user, campaign, large, monkeypatch):
    """Under ASGI, as in production: by a thread of their own, in parts; 429 while too many are."""
    attempt = Attempt.objects.filter(run__campaign=campaign).earliest("pk")
    kept(attempt, "noise", random.Random(1).randbytes(2 << 20))
    began: list[threading.Thread] = []
    archive = raw_data.stream_archive

    def noted(*args: Any) -> Any:
        began.append(threading.current_thread())
        yield from archive(*args)

    monkeypatch.setattr(raw_data, "stream_archive", noted)
    for address in (url(campaign, "-raw"), url(campaign, "-file") + "?raw=1"):
        answer, parts = asked(user, address)
        assert answer.status_code == 200 and answer.streaming and len(parts) > 4
        assert max(map(len, parts)) < 8 << 20
        whole = b"".join(parts)
        packed = (
            zip_in(whole.decode()) if "raw=1" in address else zipfile.ZipFile(io.BytesIO(whole))
        )
        check(packed, all_of(campaign))
    assert len(began) == 2 and threading.main_thread() not in began
    monkeypatch.setattr(answers, "EXPORT_SLOTS", threading.BoundedSemaphore(1))
    with answers.EXPORT_SLOTS:
        for address in (url(campaign, "-raw"), url(campaign, "-file") + "?raw=1"):
            answer, _ = asked(user, address)
            assert answer.status_code == 429 and answer["Retry-After"]


def test_what_a_rule_removed_is_counted_and_not_in_it(web, campaign, large):
    Attempt.objects.filter(pk=large.attempt_id).update(
        raw_removed_at=timezone.now(), raw_removed_after=30
    )
    Artifact.objects.filter(attempt=large.attempt_id).update(content=b"")
    ArtifactPiece.objects.all().delete()
    rows = [one for one in all_of(campaign) if one.attempt_id != large.attempt_id]
    gone = len(all_of(campaign)) - len(rows)
    page = text_of(web.get(url(campaign, "-file"), {"raw": "1"}))
    check(zip_in(page), rows)
    assert f"{gone} more were removed by the team" in page
    Attempt.objects.update(raw_removed_at=timezone.now(), raw_removed_after=30)
    assert "data:application/zip" not in text_of(web.get(url(campaign, "-file"), {"raw": "1"}))


def test_a_comparison_has_that_of_its_runs(web, team, user, campaign):
    other = made.campaign(team, "Another")
    made.swept(
        other,
        made.host(team, "vm-2"),
        made.topology(team, "x"),
        made.workload(team, "w"),
        depths=(1,),
    )
    view = SavedView.objects.create(team=team, name="One", query=f"campaign={campaign.pk}", by=user)
    check(archive_of(web.get(reverse("view-report-raw", args=[view.pk]))), all_of(campaign))
    page = text_of(web.get(reverse("view-report-file", args=[view.pk]), {"raw": "1"}))
    check(zip_in(page), all_of(campaign))


@pytest.mark.parametrize("hide", [True, False])
def test_guests_do_not_get_it(client, user, campaign, hide):
    wish = links.check_target(user, "report", campaign.pk)
    _, token = links.create_link(wish, user, hide_hosts=hide)
    shown = client.get(f"/s/{token}/", {"raw": "1"})
    assert shown.status_code == 200
    assert "application/zip" not in shown.text and "raw output (" not in shown.text
    assert client.get(f"/s/{token}/report-raw.zip").status_code == 404


def test_a_saved_view_of_what_one_sees_no_more_has_nothing(web, team, user, campaign):
    theirs = Team.objects.create(name="Theirs")
    view = SavedView.objects.create(team=team, name="One", query=f"campaign={campaign.pk}", by=user)
    type(campaign).objects.update(team=theirs)
    found = archive_of(web.get(reverse("view-report-raw", args=[view.pk])))
    assert found.namelist() == [raw_data.SUMS]
