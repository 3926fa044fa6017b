"""Raw output in a report, and for whom: never a byte that the page of that file does not give to the same person."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.runs.models import Artifact, Attempt
from benchlab.sharing import links, raw_data
from benchlab.sharing.models import SavedView
from benchlab.team import tokens
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from tests.charts import made
from tests.shares import quick_has_first
from tests.sharing.conftest import HOST, SECRET, SERIAL, link_of

LINKS = [(kind, hide) for kind in ("run", "comparison", "campaign", "report") for hide in (True, False)]  # fmt: skip
OTHERS = ("another team", "no team", "site admin", "anonymous")


@pytest.fixture
def view(lab) -> SavedView:
    query = f"campaign={lab.campaign.pk}"
    return SavedView.objects.create(team=lab.team, name="One", query=query, by=lab.user)


@pytest.fixture
def addresses(lab, view) -> list[str]:
    """All that give raw output of several runs."""
    return [
        f"/{about}/report{part}"
        for about in (f"campaigns/{lab.campaign.pk}", f"views/{view.pk}")
        for part in (".html?raw=1", "-raw.zip", ".html?raw=1&numbers=1")
    ]


def somebody(who: str, team: Team) -> Client:
    client = Client()
    if who == "anonymous":
        return client
    person = User.objects.create_user(who.replace(" ", "-"), is_superuser=who == "site admin")
    if who == "another team":
        Membership.objects.create(team=Team.objects.create(name="Theirs"), user=person)
    elif who in Role.values:
        Membership.objects.create(team=team, user=person, role=who)
    client.force_login(person)
    return client


def body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else bytes(answer.content)


def packed(raw: bytes) -> dict[str, bytes]:
    """SHA-256 -> bytes of each file in the ZIP that this is, or that is in this page."""
    found = re.search(rb"data:application/zip;base64,([^\"]*)", raw)
    raw = base64.b64decode(found[1]) if found else raw
    if not zipfile.is_zipfile(io.BytesIO(raw)):
        return {}
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        contents = [archive.read(name) for name in archive.namelist() if name != raw_data.SUMS]
    return {hashlib.sha256(one).hexdigest(): one for one in contents}


def by_file(client: Client, prefix: str = "") -> dict[str, bytes]:
    """The same of every file that the page of each gives to this person."""
    found = {}
    for row in Artifact.objects.all():
        answer = client.get(f"{prefix}/artifacts/{row.pk}/")
        if answer.status_code == 200:
            content = body(answer)
            found[hashlib.sha256(content).hexdigest()] = content
    return found


def given(client: Client, addresses: list[str]) -> list[dict[str, bytes]]:
    return [packed(body(client.get(address))) for address in addresses]


@pytest.mark.parametrize("role", quick_has_first(Role.values))
def test_members_get_what_each_files_page_gives(lab, addresses, role):
    """A viewer as an owner, byte for byte."""
    client = somebody(role, lab.team)
    allowed = by_file(client)
    assert any(SERIAL.encode() in one for one in allowed.values())
    for got in given(client, addresses):
        assert got == allowed


@pytest.mark.parametrize("who", quick_has_first(OTHERS))
def test_nobody_else_gets_anything(lab, addresses, who):
    client = somebody(who, lab.team)
    assert by_file(client) == {}
    for address in addresses:
        answer = client.get(address)
        refused = answer.status_code in (403, 404)
        assert refused or (who == "anonymous" and answer["Location"].startswith("/login/"))
        assert not any(word.encode() in body(answer) for word in SECRET)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kind", "hide"), LINKS)
def test_guests_get_no_more_than_under_their_link(lab, addresses, kind, hide):
    """Neither at a member's addresses nor below the link, whatever is asked of it; and of the rows that reports are
    made of, what the link's own page of a file gives."""
    share, token = link_of(lab, kind, hide=hide)
    guest = Client()
    allowed = by_file(guest, f"/s/{token}")
    assert bool(allowed) == (kind == "run" and not hide)
    own = [f"/s/{token}/{part}" for part in ("?raw=1", "report-raw.zip", "report.html?raw=1")]
    assert guest.get(own[0]).status_code == 200
    for address in (*addresses, *own):
        answer = guest.get(address, headers={"Authorization": f"Token {token}"})
        raw = body(answer)
        assert packed(raw) == {} and b"application/zip" not in raw and b"raw=1" not in raw
        assert answer.status_code in (302, 403, 404) or address == own[0]
    rows = raw_data.readable_artifacts(links.open_link(share, token).guest, Artifact.objects.all())
    assert {row.read() for row in rows} == set(allowed.values())


def test_of_several_teams_each_gets_their_own(lab, view, addresses):
    """A saved comparison names what it likes: another team's campaign adds nothing, until one belongs to both."""
    theirs = Team.objects.create(name="Theirs")
    other = made.campaign(theirs, "Other")
    made.swept(other, made.host(theirs, "h"), made.topology(theirs, "t"), made.workload(theirs))
    own = [*Artifact.objects.filter(attempt__run__campaign=lab.campaign)]
    SavedView.objects.filter(pk=view.pk).update(
        query=f"campaign={lab.campaign.pk}&campaign={other.pk}"
    )
    Artifact.objects.filter(attempt__run__campaign=other).update(content=b"theirs", size=6)
    client = somebody("viewer", lab.team)
    address = f"/views/{view.pk}/report-raw.zip"
    [got] = given(client, [address])
    assert set(got.values()) == {one.read() for one in own}
    assert str(other.pk) not in str(client.get(f"/views/{view.pk}/report/").context["raw_listed"])
    Membership.objects.create(team=theirs, user=User.objects.get(username="viewer"), role="viewer")
    [got] = given(client, [address])
    assert set(got.values()) == {one.read() for one in own} | {b"theirs"}


def test_the_librarys_is_everybodys_who_has_an_account(lab):
    """As the page of each of its files."""
    library = Team.objects.get_or_create(library=True, defaults={"name": "Library"})[0]
    Campaign.objects.filter(pk=lab.campaign.pk).update(team=library)
    addresses = [
        f"/campaigns/{lab.campaign.pk}/report{part}" for part in (".html?raw=1", "-raw.zip")
    ]
    client = somebody("another team", lab.team)
    allowed = by_file(client)
    assert len(allowed) == 3 and given(client, addresses) == [allowed, allowed]
    page = client.get(f"/campaigns/{lab.campaign.pk}/report/")
    [listed] = page.context["raw_listed"]
    assert client.get(listed).json()["count"] == Artifact.objects.count()
    assert given(somebody("anonymous", lab.team), addresses) == [{}, {}]


def test_who_was_removed_and_what_was_deleted(lab, view, addresses):
    client = somebody("viewer", lab.team)
    assert all(given(client, addresses))
    Campaign.objects.filter(pk=lab.campaign.pk).update(deleted_at=timezone.now())
    assert by_file(client) == {} and not any(given(client, addresses))
    Campaign.even_deleted.filter(pk=lab.campaign.pk).update(deleted_at=None)
    assert all(given(client, addresses))
    Membership.objects.filter(user__username="viewer").delete()
    assert by_file(client) == {} and not any(given(client, addresses))


def test_what_a_rule_removed_is_given_by_neither(lab, addresses):
    client = somebody("viewer", lab.team)
    one = Attempt.objects.filter(run=lab.run).earliest("pk")
    Attempt.objects.filter(pk=one.pk).update(raw_removed_at=timezone.now(), raw_removed_after=3)
    Artifact.objects.filter(attempt=one).update(content=b"")
    allowed = by_file(client)
    assert not any(HOST.encode() in row and lab.run.pk == one.run_id for row in allowed.values())
    for got in given(client, addresses):
        assert got == allowed


def test_a_limited_token_lists_what_its_team_has(lab, other_user):
    """The API's addresses that a report names give no more either."""
    address = f"/api/artifacts/?campaign={lab.campaign.pk}"
    counts = {}
    for person in (lab.user, other_user):
        secret = tokens.create_token(person, "t", Role.VIEWER, 1, None)[1]
        answer = Client().get(address, headers={"Authorization": f"Token {secret}"})
        assert answer.status_code == 200
        counts[person.username] = answer.json()["count"]
    assert counts == {"alice": Artifact.objects.count(), "bob": 0}
    assert Client().get(address).status_code in (401, 403)
