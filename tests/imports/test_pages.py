"""The pages of the import: what was found is shown with its lines, and only what a person agreed to is stored."""

from __future__ import annotations

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from benchlab.campaigns.models import Campaign, Workload
from benchlab.charts.queries import read_groups
from benchlab.hosts.models import Host
from benchlab.imports import drafts
from benchlab.imports.models import Draft, DraftFile, Source
from benchlab.runs.models import Measurement, Series
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.topologies.models import Topology
from tests.charts import made as charted
from tests.imports.made import TEXT

pytestmark = pytest.mark.usefixtures("readers", "nudges")


def handed_in(web, text=TEXT, files=()) -> Draft:
    answer = web.post("/import/", {"text": text, "files": list(files)})
    assert answer.status_code == 302, answer.content.decode()
    draft = Draft.objects.latest("pk")
    assert answer.url == f"/import/{draft.pk}/"
    return draft


def page(web, draft) -> str:
    return web.get(f"/import/{draft.pk}/").content.decode()


def typed(draft, **more) -> dict[str, str]:
    """Agreeing to all of TEXT on a new host and topology."""
    (file,) = draft.files.all()
    of = lambda line, name: f"r{file.pk}-{line}-{name}"  # noqa: E731
    return {
        "campaign": "old results", "new_host": "elsewhere", "new_topology": "stripe",
        of(2, "take"): "on", of(3, "take"): "on", of(6, "take"): "on", of(6, "beside"): f"{file.pk}-3",
        **more,
    }  # fmt: skip


def test_every_number_is_shown_with_its_line(web):
    draft = handed_in(web)
    shown = page(web, draft)
    file = draft.files.get()
    for line, value in ((2, "12 IOPS"), (3, "13 IOPS")):
        assert value in shown
        assert f"/import/{draft.pk}/files/{file.pk}/?line={line}#L{line}" in shown
    assert "no rate in" in shown and "Not recognised: 2 parts" in shown
    assert "nobody knows &lt;b&gt;this" in shown and "<b>this" not in shown
    assert not Campaign.objects.exists() and not Host.objects.exists()


def test_the_line_is_there_to_look_at(web):
    draft = handed_in(web)
    text = web.get(f"/import/{draft.pk}/files/{draft.files.get().pk}/?line=5").content.decode()
    assert re.search(r'<li id="L5" class="marked">.*nobody knows &lt;b&gt;this&lt;/b&gt;', text)


def test_looking_at_lines_takes_no_file_apart(web, monkeypatch):
    draft = handed_in(web, "RATE 1\n" + "x" * 5000 + "\n" + "y\n" * 2500)
    address = f"/import/{draft.pk}/files/{draft.files.get().pk}/"

    def parsed(*args):
        raise AssertionError("a request took the file apart")

    for one in ("texts.decode_upload", "read_content"):
        monkeypatch.setattr(f"benchlab.imports.drafts.{one}", parsed)
    first, last = (web.get(f"{address}?line={n}").content.decode() for n in (1, 2400))
    assert "RATE 1" in first and "1000 more characters" in first and 'id="L1000"' in first
    assert 'id="L2400"' in last and 'id="L2001"' in last and 'id="L2000"' not in last
    assert 'id="L2503"' in web.get(f"{address}?line=999999999").content.decode()


def test_a_file_that_is_not_read_yet_shows_how_far_that_is(web, nobody_reads, nudges):
    draft = handed_in(web)
    answer = web.get(f"/import/{draft.pk}/files/{draft.files.get().pk}/")
    assert answer.url == f"/import/{draft.pk}/"


def test_what_was_agreed_to_is_stored_and_charted(web, user):
    draft = handed_in(web)
    answer = web.post(
        f"/import/{draft.pk}/",
        typed(draft, title="A post", author="Ann", date="2013-05", url="https://example.org/a"),
    )
    campaign = Campaign.objects.get()
    answer = web.get(answer.url)
    assert answer.url == f"/campaigns/{campaign.pk}/"
    assert not DraftFile.objects.exists()
    (line,) = read_groups(user, [campaign.pk])
    assert [(s.outstanding, s.values) for s in line.samples] == [(4, {"iops": 12.0}), (8, {"iops": 13.0})]  # fmt: skip
    assert [(s.sampler, s.attempt.run.outstanding) for s in Series.objects.all()] == [("watch", 8)]
    assert bytes(Source.objects.get().content).decode() == TEXT
    assert Host.objects.get().access == Host.Access.DESCRIBED
    assert Topology.objects.get().stack == []
    shown = web.get(answer.url).content.decode()
    assert 'href="https://example.org/a" rel="noopener' in shown and "Ann" in shown
    assert "Imported" in shown and "12 IOPS" in shown
    for button in ("Retry", "Plan again", "Cancel", "Pause"):
        assert button not in shown


def test_errors_keep_what_was_typed(web):
    draft = handed_in(web)
    sent = typed(draft, new_host="", question="Which is faster?", url="javascript:alert(1)")
    shown = web.post(f"/import/{draft.pk}/", sent).content.decode()
    assert "Choose a host, or name a new one." in shown and "begins with http" in shown
    assert "Which is faster?" in shown and "stripe" in shown
    assert shown.count("Choose a host, or name a new one.") == 1
    assert (
        Draft.objects.exists() and not Campaign.objects.exists() and not Topology.objects.exists()
    )


def test_ours_can_be_chosen_and_others_cannot(web, team, other_user):
    host, topology = charted.host(team), charted.topology(team, "raw")
    theirs = charted.host(other_user.teams.get(), "theirs")
    draft = handed_in(web)
    assert "theirs" not in page(web, draft)
    sent = typed(
        draft, host=str(theirs.pk), new_host="", topology=str(topology.pk), new_topology=""
    )
    assert "Select a valid choice" in web.post(f"/import/{draft.pk}/", sent).content.decode()
    web.post(f"/import/{draft.pk}/", sent | {"host": str(host.pk)})
    run = Campaign.objects.get().runs.first()
    assert (run.host, run.topology) == (host, topology)


def test_one_result_may_differ_and_another_be_left_out(web):
    draft = handed_in(web, "RATE 1\nRATE 2\n")
    (file,) = draft.files.all()
    sent = {"campaign": "c", "new_host": "a", "new_topology": "t", f"r{file.pk}-2-take": "on",
            f"r{file.pk}-2-new_host": "b", f"r{file.pk}-2-outstanding": "16",
            f"r{file.pk}-2-workload": "mine"}  # fmt: skip
    web.post(f"/import/{draft.pk}/", sent)
    run = Campaign.objects.get().runs.get()
    assert (run.host.name, run.outstanding, run.workload.name) == ("b", 16, "mine")
    assert not Host.objects.filter(name="a").exists()


def test_the_same_again_is_said(web):
    draft = handed_in(web)
    web.post(f"/import/{draft.pk}/", typed(draft))
    again = handed_in(web)
    shown = page(web, again)
    assert "was imported already" in shown and f"/campaigns/{Campaign.objects.get().pk}/" in shown


def test_nobody_else_sees_a_draft(web, other_web):
    draft = handed_in(web)
    file = draft.files.get()
    for path in ("", f"files/{file.pk}/"):
        assert other_web.get(f"/import/{draft.pk}/{path}").status_code == 404
    assert other_web.post(f"/import/{draft.pk}/discard/").status_code == 404
    assert str(draft) not in other_web.get("/import/").content.decode()


def test_it_can_be_discarded(web):
    draft = handed_in(web)
    assert web.post(f"/import/{draft.pk}/discard/").url == "/import/"
    assert not Draft.objects.exists()


def test_names_and_contents_are_only_text(web):
    evil = "<script>alert(1)</script>"
    file = SimpleUploadedFile("<img src=x onerror=alert(1)>.txt", f"{evil}\nRATE 5\n".encode())
    draft = handed_in(web, "", [file])
    row = draft.files.get()
    for path in ("", f"files/{row.pk}/"):
        shown = web.get(f"/import/{draft.pk}/{path}").content.decode()
        assert evil not in shown and "<img" not in shown.split("<main")[1]
        assert "&lt;script&gt;" in shown


def test_nothing_handed_in_is_said(web):
    assert "Paste something" in web.post("/import/", {"text": ""}).content.decode()


def test_too_much_is_said_before_it_is_read(web, monkeypatch):
    monkeypatch.setattr(drafts, "MAX_REQUEST_BYTES", 1000)
    answer = web.post("/import/", {"text": "x" * 2000})
    assert answer.status_code == 413 and "more than 100 MB" in answer.content.decode()
    monkeypatch.undo()


def test_too_long_a_paste_is_said(web, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    answer = web.post("/import/", {"text": "x" * 2000})
    assert answer.status_code == 413 and "Save it as a file" in answer.content.decode()


def test_a_form_of_another_site_is_refused(user):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    assert strict.post("/import/", {"text": TEXT}).status_code == 403
    assert not Draft.objects.exists()


def test_progress_is_shown_until_all_is_read(web, htmx, nobody_reads, nudges):
    draft = handed_in(web)
    assert "Reading: 0 of 1 file" in page(web, draft)
    assert "0 of 1" in htmx.get(f"/import/{draft.pk}/").content.decode()

    drafts.read_file(draft.files.get().pk)
    assert htmx.get(f"/import/{draft.pk}/")["HX-Refresh"] == "true"
    assert "12 IOPS" in page(web, draft)


def test_run_page_links_each_number_to_its_line(web):
    draft = handed_in(web)
    web.post(f"/import/{draft.pk}/", typed(draft))
    row = Measurement.objects.order_by("pk").first()
    artifact = row.attempt.artifacts.get(name__startswith="pasted.lines-2-2")
    shown = web.get(f"/runs/{row.attempt.run_id}/").content.decode()
    assert f"/artifacts/{artifact.pk}/lines/?line=1#L1" in shown and "Retry" not in shown
    lines = web.get(f"/artifacts/{artifact.pk}/lines/?line=1").content.decode()
    assert "RATE 12 at depth 4" in lines


def test_nothing_of_it_can_be_run(web):
    draft = handed_in(web)
    web.post(f"/import/{draft.pk}/", typed(draft))
    campaign = Campaign.objects.get()
    run = campaign.runs.first()
    for path in ("plan", "pause", "cancel", "start"):
        assert web.post(f"/campaigns/{campaign.pk}/{path}/").status_code == 302
    assert web.post(f"/runs/{run.pk}/retry/").status_code == 302
    campaign.refresh_from_db()
    assert (campaign.cancelled_at, campaign.paused_at, run.attempts.count()) == (None, None, 1)


def test_an_imported_workload_has_a_page_and_is_not_offered(web):
    draft = handed_in(web)
    web.post(f"/import/{draft.pk}/", typed(draft))
    load = Workload.objects.get()
    shown = web.get(f"/workloads/{load.pk}/").content.decode()
    assert "cannot be run here" in shown and "Use it in a campaign" not in shown
    assert "Imported with results" in web.get("/workloads/").content.decode()
    wizard = web.get("/campaigns/new/").content.decode()
    assert "elsewhere" not in wizard and "stripe" not in wizard
    host, topology = Host.objects.get(), Topology.objects.get()
    assert "layers are not known" in web.get(f"/topologies/{topology.pk}/").content.decode()
    assert web.get(f"/topologies/{topology.pk}/plan/").status_code == 302
    for path in ("", f"{topology.pk}/edit/"):
        assert web.get(f"/topologies/{path}").status_code == 200
    assert "Read facts" not in web.get(f"/hosts/{host.pk}/").content.decode()


def test_a_viewer_is_not_offered_what_only_operators_may(web, user, team):
    draft = handed_in(web)
    assert "Confirm and store" in page(web, draft) and ">Import</a>" in page(web, draft)
    Membership.objects.filter(user=user, team=team).update(role=Role.VIEWER)
    for path in ("/", "/campaigns/", "/library/"):
        shown = web.get(path)
        assert shown.status_code == 200 and ">Import</a>" not in shown.content.decode(), path
    assert web.get("/import/").status_code == web.get(f"/import/{draft.pk}/").status_code == 403
    # An operator of another team still sees nothing of this one's.
    others = Team.objects.create(name="Mine")
    Membership.objects.create(user=user, team=others, role=Role.OPERATOR)
    assert str(draft) not in web.get("/import/").content.decode()
    assert web.get(f"/import/{draft.pk}/").status_code == 404
