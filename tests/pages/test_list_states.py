"""Lists of hosts and of links sort by the state that each row says."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.sharing.models import Share
from tests.campaigns.conftest import make_host

pytestmark = pytest.mark.django_db


def states(web: Any, url: str) -> list[str]:
    body = web.get(url).text.partition("<tbody>")[2].partition("</tbody>")[0]
    return [word.strip() for word in re.findall(r'<span class="badge[^"]*">([^<]*)<', body)]


@pytest.fixture
def read(team):
    """A host by its name, that was reached and read as it is given."""

    def made(name: str, sudo: bool | None, **fields: Any) -> Host:
        host = make_host(team, name, **{"host_key": "ssh-ed25519 A", **fields})
        if sudo is not None:
            FactSnapshot.objects.create(host=host, boot_id="b", facts={"sudo": sudo})
        return host

    return made


def test_hosts_that_need_a_person_are_first(web, read):
    read("a", True)
    read("b", False)
    read("c", None)
    read("d", True, host_key="")
    read("e", True, trouble="no_answer")
    found = states(web, "/hosts/?sort=state")
    assert len(found) == 5 and found[1:] == [
        "Key not confirmed",
        "Not read yet",
        "No sudo: disks cannot be used",
        "Ready",
    ]
    assert states(web, "/hosts/?sort=-state") == found[::-1]


def test_links_that_open_something_are_first(web, team, user):
    campaign, now = Campaign.objects.create(team=team, name="c", seed=1), timezone.now()
    ends = {"gone": (1, now), "late": (-1, None), "open": (1, None)}
    for name, (days, revoked) in ends.items():
        Share.objects.create(
            team=team, kind="campaign", object_id=campaign.pk, name=name, digest=name, by=user,
            expires_at=now + timedelta(days=days), revoked_at=revoked,
        )  # fmt: skip
    found = [word.lower() for word in states(web, "/shares/?sort=state")]
    assert found == ["open", "expired", "revoked"]
