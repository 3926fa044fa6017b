"""A link opens what was shared and nothing beside it, whoever asks and however."""

from __future__ import annotations

import pytest

from benchlab.campaigns.models import Campaign, Run
from benchlab.charts.queries import read_groups
from benchlab.hosts.models import Host
from benchlab.runs.models import Artifact, Attempt
from benchlab.sharing import links
from benchlab.sharing.models import Share
from tests.charts import made
from tests.sharing.conftest import HOST, OTHER_HOST, link_of


def test_a_guest_sees_the_links_rows_and_no_others(lab, other_user):
    """Whatever asks `visible_to`, and whatever asks `for_user`."""
    theirs = made.campaign(other_user.teams.get(), "Theirs")
    share, token = link_of(lab, "run")
    guest = links.open_link(share, token).guest
    assert list(Run.objects.visible_to(guest)) == [lab.run]
    assert list(Campaign.objects.visible_to(guest)) == [lab.campaign]
    assert {one.run_id for one in Attempt.objects.visible_to(guest)} == {lab.run.pk}
    assert not Artifact.objects.visible_to(guest).exists()  # names are hidden
    assert not Host.objects.visible_to(guest).exists()
    for model in (Run, Campaign, Attempt, Artifact, Host, Share):
        assert not model.objects.for_user(guest).exists()
    assert {g.campaign for g in read_groups(guest, [lab.campaign.pk, theirs.pk])} == {
        lab.campaign.pk
    }
    assert sum(len(g.samples) for g in read_groups(guest, [lab.campaign.pk])) == 1


def test_a_comparison_is_as_narrow_as_it_was_shared(lab, guest):
    """A wider question under the link is answered as the link's own."""
    one = lab.hosts[0]
    _, token = link_of(
        lab, "comparison", hide=False, query=f"campaign={lab.campaign.pk}&host={one.pk}"
    )
    other = made.campaign(lab.team, "Another")
    made.swept(other, one, made.topology(lab.team, "raw"), lab.load, depths=(1, 2))
    for query in (
        "",
        f"?host={lab.hosts[1].pk}",
        f"?campaign={other.pk}&campaign={lab.campaign.pk}",
    ):
        csv = guest.get(f"/s/{token}/numbers.csv{query}").content.decode()
        assert f",{OTHER_HOST}," not in csv and "Another" not in csv
        assert OTHER_HOST not in guest.get(
            f"/s/{token}/figure.json{query}"
        ).content.decode().replace("Is ", "")
    assert f",{HOST}," in guest.get(f"/s/{token}/numbers.csv").content.decode()


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ("stage=during-1", ["during-1"]),
        ("stage=built", [""]),
        ("stage=built&stage=during-1", ["", "during-1"]),
        ("", ["", "during-1", "after-1"]),
    ],
)
def test_moments_that_were_not_shared_are_not_there(lab, guest, asked, seen):
    """Not only not drawn: whoever asks for a run of them finds none."""
    first = lab.attempts[0].layout
    for stage in ("during-1", "after-1"):
        one = made.finished(lab.campaign, first, lab.load, 1, 9, 1000.0)
        Run.objects.filter(pk=one.run_id).update(stage=stage)
    share, token = link_of(
        lab, "comparison", query=f"campaign={lab.campaign.pk}{'&' if asked else ''}{asked}"
    )
    person = links.open_link(share, token).guest
    assert set(Run.objects.visible_to(person).values_list("stage", flat=True)) == set(seen)
    assert set(Attempt.objects.visible_to(person).values_list("run__stage", flat=True)) == set(seen)


def test_another_runs_artifact_is_not_under_the_link(lab, guest):
    _, token = link_of(lab, "run", hide=False)
    mine = lab.attempts[0].artifacts.first()
    other = lab.attempts[1].artifacts.first()
    assert guest.get(f"/s/{token}/artifacts/{mine.pk}/").status_code == 200
    assert guest.get(f"/s/{token}/artifacts/{other.pk}/").status_code == 404
    _, hidden = link_of(lab, "run")
    assert guest.get(f"/s/{hidden}/artifacts/{mine.pk}/").status_code == 404
    _, whole = link_of(lab, "campaign", hide=False)
    assert guest.get(f"/s/{whole}/artifacts/{mine.pk}/").status_code == 404
