"""The top bar and the menu of every page: Home's numbers, in one query, to who may see them, without a request."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from benchlab.findings.models import Finding
from benchlab.hosts.models import Host
from benchlab.pages.campaigns import attention
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from tests.charts import made
from tests.pages.test_home import building, disk, known, lab, to_come

__all__ = ["known", "lab"]

pytestmark = pytest.mark.django_db
PILL = re.compile(
    r'<span id="top-runs">(?:<a id="top-pill"[^>]* href="([^"]*)">(\d+) running</a>)?</span>'
)
COUNT = re.compile(r'<span id="nav-needed" class="count">(\d*)')


@pytest.fixture(autouse=True)
def told_as_it_is(settings):
    settings.TOP_BAR_S = 0.0


def bar(client, url: str = "/hosts/") -> tuple[str, str, str]:
    """Address of the pill, number of what runs, number of what needs a person; "" for what is not told."""
    text = client.get(url).text
    [(leads, runs)], [needed] = PILL.findall(text), COUNT.findall(text)
    return leads, runs, needed


def nothing(lab) -> None:
    pass


def runs(lab) -> None:
    building(lab)


def two_run(lab) -> None:
    building(lab)
    building(lab, host=key(made.host(lab.team, "vm-10")))


def key(host: Host) -> Host:
    host.host_key = "ssh-ed25519 AAAA"
    host.save()
    return host


def is_cancelled_as_it_runs(lab) -> None:
    layout = building(lab)
    layout.campaign.cancelled_at = timezone.now()
    layout.campaign.save()


def is_paused(lab) -> None:
    layout = building(lab)
    layout.campaign.paused_at = timezone.now()
    layout.campaign.save()


def is_stuck(lab) -> None:
    layout = building(lab)
    Layout.objects.filter(pk=layout.pk).update(phase=LayoutPhase.STUCK, outcome=Outcome.FAILED)


def asks(lab) -> None:
    layout = building(lab)
    Layout.objects.filter(pk=layout.pk).update(needs_person="Make the array.")


def asks_in_the_archive(lab) -> None:
    asks(lab)
    lab.team.campaigns.update(archived_at=timezone.now())


def plans_wait(lab) -> None:
    for name in "AB":
        disk(lab.host, name, spare=True)
    to_come(lab, 2, planned_at=timezone.now())
    to_come(lab, 2)


def a_draft_is_cancelled(lab) -> None:
    layout = to_come(lab, 2)
    layout.campaign.cancelled_at = timezone.now()
    layout.campaign.save()


def a_disk_is_gone(lab) -> None:
    disk(lab.host, "sda", spare=True)
    disk(lab.host, "sdk", spare=True, present=False)
    disk(lab.host, "sdl", spare=True, present=False)
    disk(lab.host, "sdz", present=False)


def disks_are_too_few(lab) -> None:
    disk(lab.host, "sda", spare=True)
    disk(lab.host, "sdb", role="ssd", spare=True)
    to_come(lab, 2, LayoutPhase.WAITING)
    to_come(lab, 3, LayoutPhase.WAITING)


def hosts_are_in_trouble(lab) -> None:
    made.host(lab.team, "vm-11")
    silent = key(made.host(lab.team, "vm-12"))
    Host.objects.filter(pk=silent.pk).update(trouble="timed_out")
    disk(silent, "sda", spare=True, present=False)
    disk(silent, "sdb", spare=True)


def a_history_stands_out(lab) -> None:
    attempt = Attempt.objects.first()
    for about, dismissed in (("a", None), ("b", None), ("c", timezone.now())):
        Finding.objects.create(
            campaign=lab.campaign, attempt=attempt, kind="stands_out", about=about,
            says="It stands out", severity="doubt", dismissed_at=dismissed,
        )  # fmt: skip


def all_at_once(lab) -> None:
    for one in (runs, plans_wait, a_disk_is_gone, hosts_are_in_trouble, a_history_stands_out):
        one(lab)
    to_come(lab, 9, LayoutPhase.WAITING)


EXPECTED = {
    nothing: (0, 0),
    runs: (1, 0),
    two_run: (2, 0),
    is_cancelled_as_it_runs: (1, 0),
    is_paused: (0, 0),
    is_stuck: (0, 1),
    asks: (0, 1),
    asks_in_the_archive: (0, 1),
    plans_wait: (0, 2),
    a_draft_is_cancelled: (0, 1),
    a_disk_is_gone: (0, 1),
    disks_are_too_few: (0, 1),
    hosts_are_in_trouble: (0, 3),
    a_history_stands_out: (0, 2),
    all_at_once: (1, 8),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("what", EXPECTED, ids=lambda what: what.__name__)
def test_every_page_tells_what_home_tells(web, other_web, user, known, what):
    what(known)
    expected = tuple(str(n or "") for n in EXPECTED[what])
    assert bar(web)[1:] == expected
    assert bar(web, "/")[1:] == expected
    shown = web.get("/").context
    assert attention.read_top_bar(user).needed == shown["needed"]
    assert sorted(attention.read_top_bar(user).runs) == sorted(
        row["campaign"].pk for row in shown["runs"]
    )
    assert bar(other_web) == ("", "", "")


def test_the_pill_leads_to_what_runs(web, known):
    layout = building(known)
    assert bar(web)[0] == bar(web, "/")[0] == f"/campaigns/{layout.campaign_id}/"
    building(known, host=key(made.host(known.team, "vm-10")))
    assert bar(web)[0] == "/"


def test_it_costs_one_query_however_much_there_is(web, known, settings):
    def queries(bar_s: float) -> int:
        settings.TOP_BAR_S = bar_s
        with CaptureQueriesContext(connection) as asked:
            assert bar(web, "/workloads/")[1:] != ("", "")
        return len(asked)

    for _ in range(3):
        all_at_once_again(known)
        assert queries(0.0) == queries(60.0) + 1


def all_at_once_again(lab) -> None:
    number = Host.objects.count()
    building(lab, host=key(made.host(lab.team, f"vm-{number}")))
    to_come(lab, number, LayoutPhase.WAITING)


def test_all_of_equal_rights_are_told_the_same_for_a_moment(web, other_web, team, known, settings):
    settings.TOP_BAR_S = 60.0
    colleague, viewer = (User.objects.create_user(name) for name in ("carol", "dave"))
    Membership.objects.create(team=team, user=colleague)
    Membership.objects.create(team=team, user=viewer, role=Role.VIEWER)
    clients = [Client(), Client()]
    for client, person in zip(clients, (colleague, viewer), strict=True):
        client.force_login(person)
    assert bar(web) == ("", "", "")
    layout = building(known)
    assert bar(web) == bar(clients[0]) == ("", "", "")
    assert bar(clients[1])[1] == "1"
    assert bar(other_web) == ("", "", "")
    settings.TOP_BAR_S = 0.0
    assert bar(clients[0])[0] == f"/campaigns/{layout.campaign_id}/"


def test_a_page_for_operators_tells_of_all_ones_teams(web, user, known, settings):
    """Its address asks for a role that one has not everywhere; and what it tells is told on other pages, too."""
    settings.TOP_BAR_S = 60.0
    seen = Team.objects.create(name="Seen only")
    Membership.objects.create(team=seen, user=user, role=Role.VIEWER)
    disk(key(made.host(seen, "theirs")), "sdk", spare=True, present=False)
    disk(known.host, "sdk", spare=True, present=False)
    assert bar(web, reverse("campaign-new"))[2] == "2"
    assert bar(web)[2] == "2"


def test_who_may_see_nothing_is_told_nothing(web, user, team, known):
    building(known)
    assert "top-runs" not in Client().get("/login/").text
    assert bar(web, "/account/")[1] == "1"
    Team.objects.update(require_mfa=True)
    assert bar(web, "/account/") == ("", "", "")
    Team.objects.update(require_mfa=False)
    Membership.objects.filter(user=user).delete()
    assert bar(web) == ("", "", "")


def test_a_live_page_renews_it_with_what_it_asks_for_anyway(web, htmx, known):
    layout = building(known)
    url = reverse("campaign-detail", args=[layout.campaign_id])
    assert bar(web, url) == (url, "1", "")
    disk(known.host, "sdk", spare=True, present=False)
    text = htmx.get(url, headers={"HX-Target": "campaign-now"}).text
    assert '<span id="top-runs" hx-swap-oob="true"><a id="top-pill"' in text
    assert '<span id="nav-needed" class="count" hx-swap-oob="true">1<' in text


@pytest.mark.parametrize(
    "url", ["/", "/hosts/", "/campaigns/", "/topologies/", "/account/", "/nowhere/"]
)
def test_no_page_asks_for_its_bar(web, known, url):
    building(known)
    page = web.get(url).text
    frame = page.partition("<main")[0]
    assert "top-runs" in frame
    assert re.findall('hx-trigger="([^"]*)"', frame) == ["input changed delay:250ms"]  # the search
