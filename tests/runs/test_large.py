"""Output that is larger than one answer of a host, against real parts; and what is too large to be kept."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from agents.contracts import AgentError, Reason
from agents.jobs import large_files
from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine.new_runs import create_campaign
from benchlab.runs import artifacts
from benchlab.runs.models import ArtifactPiece, Attempt
from benchlab.topologies.models import Topology
from tests.runs import drive, local_host

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = 40_000_000
SCRIPT = f"head -c {LARGE} /dev/zero >big; echo 17 >few; echo 17 words"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_host.served(tmp_path_factory.mktemp("state")) as found:
        yield found


@pytest.fixture
def make_campaign(server, team, user, tmp_path):
    tmp_path.chmod(0o755)
    stack = [{"kind": "directory", "options": {"path": str(tmp_path / "scratch")}, "devices": []}]
    scratch = Topology.objects.create(team=team, name="scratch", stack=stack)
    here = local_host.register(team, *server)

    def make(script: str = SCRIPT, repeats: int = 1) -> Campaign:
        options = {"command": script, "outputs": ["big", "few"], "extract": ["n [1] = regex: (17) words"]}  # fmt: skip
        workload = Workload.objects.create(team=team, name="c", tool="command", options=options)
        return create_campaign(
            team=team, user=user, name="first", question="", hosts=[here], topologies=[scratch],
            workloads=[workload], repeats=repeats, order="random_blocks", seed=7,
        )  # fmt: skip

    return make


def spool_of(attempt: Attempt) -> Path:
    return Path("/var/tmp", f"benchlab-{os.geteuid()}", attempt.spool)


def test_large_output_is_kept_whole_and_its_spool_removed(make_campaign, web):
    campaign = make_campaign()
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="done").exists(), 60)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text
    row = attempt.artifacts.get(name="big")
    assert (row.size, bytes(row.content)) == (LARGE, b"")
    assert row.sha256 == hashlib.sha256(bytes(LARGE)).hexdigest()
    assert [len(piece) for piece in row.pieces()] == [16 << 20, 16 << 20, LARGE - (32 << 20)]
    assert attempt.artifacts.get(name="few").read() == b"17\n"
    assert not spool_of(attempt).exists()
    answer = web.get(f"/artifacts/{row.pk}/")
    assert sum(map(len, answer)) == LARGE
    answer = web.get(f"/api/artifacts/{row.pk}/content/")
    assert sum(map(len, answer)) == LARGE
    assert "Too large to show here" in web.get(f"/artifacts/{row.pk}/lines/").content.decode()
    drive.to_the_end(campaign, 60)


def test_a_fetch_that_was_cut_off_goes_on(make_campaign, monkeypatch):
    campaign = make_campaign()
    drive.plan_and_start(campaign)
    read, asked = large_files.read_piece, []

    def broken(shell, where, one, number):
        asked.append(number)
        if len(asked) == 2:
            raise AgentError("the connection was lost", Reason.CONNECTION_LOST)
        return read(shell, where, one, number)

    monkeypatch.setattr(large_files, "read_piece", broken)
    drive.to_the_end(campaign, 60)
    assert asked == [0, 1, 1, 2]
    assert Attempt.objects.get().outcome == "succeeded"
    assert ArtifactPiece.objects.count() == 3


def test_more_than_is_kept_ends_that_run_alone(make_campaign, monkeypatch):
    """The layout goes on, is taken down, and the directory stays where the run says."""
    monkeypatch.setattr(artifacts, "MAX_BYTES", 20 << 20)
    campaign = make_campaign(repeats=2)
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 60)
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome) == ("done", "succeeded"), layout.trouble
    for attempt in Attempt.objects.all():
        assert (attempt.outcome, attempt.reason) == ("failed", "too_large")
        assert "big 38 MiB" in attempt.reason_text and "no more than 20 MiB" in attempt.reason_text
        assert str(spool_of(attempt)) in attempt.reason_text.replace("-*/", f"-{os.geteuid()}/")
        assert (spool_of(attempt) / "work" / "big").stat().st_size == LARGE
        assert attempt.artifacts.get(name="stdout").read() == b"17 words\n"
        shutil.rmtree(spool_of(attempt))


def test_an_output_that_is_no_file_fails_its_run_and_holds_no_host(make_campaign):
    campaign = make_campaign("ln -s /etc/passwd few; echo 17 words")
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 60)
    assert campaign.layouts.get().phase == "done"
    attempt = Attempt.objects.get()
    assert attempt.outcome == "failed"
    assert "not a plain file" in attempt.reason_text and "stays on the host" in attempt.reason_text
    shutil.rmtree(spool_of(attempt))


def test_a_large_file_that_is_imported_is_kept_in_pieces(make_campaign, web, monkeypatch):
    monkeypatch.setattr(artifacts, "PIECE", 1000)
    campaign = make_campaign("echo 17 words; touch big few")
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="done").exists(), 60)
    attempt = Attempt.objects.get()
    raw = os.urandom(2500)
    artifacts.store_artifacts(attempt, {"large": raw, "small": raw[:1000], "empty": b""})
    rows = {row.name: row for row in attempt.artifacts.filter(name__in=["large", "small", "empty"])}
    assert {name: (row.read(), bool(row.content)) for name, row in rows.items()} == {
        "large": (raw, False), "small": (raw[:1000], True), "empty": (b"", False),
    }  # fmt: skip
    assert rows["large"].sha256 == hashlib.sha256(raw).hexdigest()
    assert ArtifactPiece.objects.filter(attempt=attempt, name="large").count() == 3
