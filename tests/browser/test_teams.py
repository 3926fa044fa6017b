"""Two people in two teams, at real browsers: an invitation, what a viewer sees and cannot do, what a stranger sees."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from benchlab.hosts.models import Device
from benchlab.team import invitations
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from tests.browser.person import Person
from tests.charts import made
from tests.team.totp import code

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def lab(team, user):
    """A campaign that waits to be planned, and a free disk."""
    host, campaign = made.host(team), made.campaign(team)
    load = made.workload(team)
    made.swept(campaign, host, made.topology(team, "raw"), load, depths=(1, 4), repeats=1)
    Device.objects.create(
        host=host, identity="serial:S1", name="sdb", serial="S1", model="FastDisk", size=2**30
    )
    return campaign


@pytest.fixture
def somebody(chromium, live_server):
    """Browsers of people, closed at the end."""
    people: list[Person] = []

    def at_a_browser() -> Person:
        found = Person(chromium, live_server.url)
        people.append(found)
        return found

    yield at_a_browser
    for one in people:
        one.close()


def complaints(person: Person) -> list[str]:
    """Without refusals that the test asked for."""
    return [one for one in person.complaints if "status of 4" not in one]


def test_alice_invites_carol_and_bob_sees_nothing(somebody, lab, user, other_user):
    alice, carol, bob = somebody(), somebody(), somebody()
    alice.log_in("alice", "alice-password")
    alice.go("Team")
    alice.look("teams")
    alice.press("Storage")
    alice.page.get_by_label("Role", exact=True).select_option("viewer")
    alice.press("Create an invitation")
    alice.look("invited")
    link = alice.page.locator("#link").inner_text()

    carol.page.goto(link)
    carol.look("join")
    carol.page.get_by_label("Name").fill("carol")
    carol.page.get_by_label("Password").fill("harbour-lamp-9")
    carol.press("Create account and join")
    carol.page.get_by_role("heading", name="Storage").wait_for()
    assert carol.page.get_by_role("heading", name="Invite somebody").count() == 0
    carol.look("team-of-a-viewer")
    sees_and_may_not(carol, lab)
    may(alice, lab)
    alice.page.goto(f"/team/{lab.team_id}/")
    alice.look("team")

    bob.log_in("bob", "bob-password")
    for path in ("/campaigns/", "/hosts/", "/topologies/"):
        bob.page.goto(path)
        assert bob.page.get_by_role("main").get_by_text(re.compile("No [a-z]+ yet")).count(), path
        assert "vm-09" not in bob.page.content()
    for path in (f"/campaigns/{lab.pk}/", f"/team/{lab.team_id}/"):
        assert bob.page.goto(path).status == 404
    for person in (alice, carol, bob):
        assert complaints(person) == []


def actions(person: Person) -> set[str]:
    """Words of its buttons and links that look like buttons, of the page's own part."""
    main = person.page.get_by_role("main")
    found = [*main.get_by_role("button").all(), *main.locator("a[role=button]").all()]
    return {one.inner_text().strip() for one in found}


def sees_and_may_not(viewer: Person, campaign) -> None:
    viewer.page.goto(f"/campaigns/{campaign.pk}/")
    assert viewer.page.get_by_role("heading", name="Every layout at every point").is_visible()
    assert not actions(viewer) & {"Start", "Plan again", "Pause", "Cancel", "Resume"}
    host = campaign.runs.first().host
    viewer.page.goto(f"/hosts/{host.pk}/")
    assert viewer.page.get_by_role("heading", name=host.name).is_visible()
    assert not actions(viewer) & {"Read facts again", "Keys", "Change", "Remove", "Next: keys"}
    viewer.page.goto(f"/hosts/{host.pk}/devices/{host.devices.get().pk}/")
    assert viewer.page.get_by_text("Only an owner of the team can mark disks spare").is_visible()
    assert not any("spare" in one for one in actions(viewer))
    viewer.page.goto("/campaigns/")
    assert actions(viewer) == {"Compare", "Filter"}
    assert viewer.page.goto("/campaigns/new/").status == 403
    viewer.page.goto("/topologies/")
    assert actions(viewer) == {"Filter"}


def may(owner: Person, campaign) -> None:
    host = campaign.runs.first().host
    owner.page.goto(f"/hosts/{host.pk}/")
    assert actions(owner) & {"Change", "Remove"} == {"Change", "Remove"}
    owner.page.goto(f"/hosts/{host.pk}/devices/{host.devices.get().pk}/")
    assert any("spare" in one for one in actions(owner))
    owner.page.goto("/campaigns/")
    assert "New campaign" in actions(owner)


def test_a_second_factor_from_its_code_to_its_log_in(somebody, user, team):
    Team.objects.filter(pk=team.pk).update(require_mfa=True)
    alice = somebody()
    alice.log_in("alice", "alice-password")
    alice.page.get_by_text("requires two-factor authentication").wait_for()
    alice.look("second-factor-demanded")
    alice.press("Set it up")
    alice.look("confirm-password")
    alice.page.get_by_label("Password").fill("alice-password")
    alice.press("Confirm")
    alice.page.locator("#secret").wait_for()
    alice.look("second-factor-set-up")
    secret = alice.page.locator("#secret").inner_text()
    alice.page.locator("#id_code").fill(code(secret))
    alice.press("Turn it on")
    alice.page.locator("#codes").wait_for()
    alice.look("recovery-codes")
    alice.press("I have saved them")
    alice.look("account")
    alice.page.goto("/")
    assert alice.page.get_by_role("heading", name="Home", exact=True).is_visible()
    for path, name in (
        ("/account/sessions/", "sessions"),
        ("/account/second-factor/", "second-factor"),
        ("/account/password/", "password"),
        ("/account/email/", "email"),
        ("/account/reset/", "password-forgotten"),
        ("/account/second-factor/remove/", "second-factor-stays"),
    ):
        assert alice.page.goto(path).status == 200
        alice.look(name)
    alice.page.locator("header .menu summary").click()
    alice.page.get_by_role("button", name="Log out").click()
    alice.log_in("alice", "alice-password")
    alice.look("second-factor-asked")
    alice.page.locator("#id_code").fill(code(secret))
    alice.press("Log in")
    expect(alice.page.get_by_role("heading", name="Home", exact=True)).to_be_visible()
    assert complaints(alice) == []


def test_the_site_admins_pages(somebody, user, other_user, team):
    User.objects.create_superuser("root", password="root-password")
    invitations.invite(team, Role.VIEWER, user)
    Membership.objects.create(team=team, user=other_user, role=Role.OPERATOR)
    root = somebody()
    root.log_in("root", "root-password")
    root.page.goto("/site/users/")
    root.look("site-users")
    root.press("Deactivate bob")
    root.page.get_by_text("Signed bob out").wait_for()
    root.press("Reset link for alice")
    assert re.search(r"/account/reset/\w+-", root.page.locator("#link").inner_text())
    root.look("reset-link")
    root.page.goto("/site/teams/")
    root.look("site-teams")
    assert complaints(root) == []
