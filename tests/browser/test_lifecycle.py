"""Another name, archive and back, delete and back, and a team's rule on raw output, by somebody at a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from benchlab.sharing import links
from benchlab.sharing.models import SavedView
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from tests.browser.person import Person
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
ODD = "Is «a & b» <i>faster</i>? “100 %”"


@pytest.fixture
def campaign(team, user):
    found = made.campaign(team)
    made.swept(
        found, made.host(team), made.topology(team, "raw"), made.workload(team), depths=(1, 4)
    )
    SavedView.objects.create(team=team, name="Two days", query=f"campaign={found.pk}", by=user)
    links.create_link(links.check_target(user, "campaign", found.pk), user)
    return found


@pytest.fixture
def person(campaign, chromium, live_server):
    one = Person(chromium, live_server.url)
    one.log_in("alice", "alice-password")
    one.page.goto(f"/campaigns/{campaign.pk}/")
    yield one
    one.close()


def main(person: Person):
    return person.page.get_by_role("main")


def wrong(person: Person) -> list[str]:
    """Without what an answer that is meant to refuse says in the console."""
    meant = ("status of 410", "status of 400")
    return [one for one in person.complaints if not any(words in one for words in meant)]


def rename(person: Person, name: str) -> None:
    person.press("Rename…")
    person.page.fill("#id_name", name)
    person.press("Save")
    expect(main(person).get_by_role("heading", level=1)).to_contain_text(name)


def test_another_name_archive_and_back(person):
    person.press("Rename…")
    person.look("rename")
    person.page.fill("#id_name", ODD)
    person.press("Save")
    expect(main(person).get_by_role("heading", level=1)).to_contain_text(ODD)
    person.press("Archive")
    expect(main(person)).to_contain_text("it is in no list and no picker")
    person.look("archived")
    person.page.goto("/campaigns/")
    expect(main(person)).not_to_contain_text(ODD)
    person.page.go_back()
    person.press("Restore")
    expect(person.page.locator("body")).to_contain_text("is back in lists and pickers")
    person.page.goto("/campaigns/")
    expect(main(person)).to_contain_text(ODD)
    assert wrong(person) == []


def test_delete_by_its_name_and_back_within_the_grace(person, campaign):
    rename(person, ODD)
    person.press("Delete…")
    for words in (
        "What goes",
        "runs: 6",
        "Two days",
        "A campaign: its charts",
        "the audit log",
        "14 days",
    ):
        expect(main(person)).to_contain_text(words)
    person.look("delete")
    button = main(person).get_by_role("button", name=f"Delete {ODD}")
    person.page.fill("#id_typed", "delete it")
    button.click()
    expect(main(person).get_by_role("alert")).to_contain_text("Nothing was done")
    person.look("delete-refused")
    person.page.fill("#id_typed", f"delete  {ODD} ")
    button.click()
    expect(person.page).to_have_url(f"{person.url}/deleted/")
    row = main(person).get_by_role("row").filter(has_text=ODD)
    expect(row).to_contain_text("alice")
    person.look("deleted")
    assert wrong(person) == []
    answer = person.page.goto(f"/campaigns/{campaign.pk}/")
    assert answer.status == 410
    expect(main(person)).to_contain_text("It can be brought back until")
    person.look("gone")
    person.page.goto("/deleted/")
    main(person).get_by_role("button", name=f"Bring back {ODD}").click()
    expect(main(person).get_by_role("heading", level=1)).to_contain_text(ODD)
    person.drawn()
    assert wrong(person) == []


def test_two_tabs_delete_once_and_rename_once(person, campaign):
    address = f"/campaigns/{campaign.pk}/delete/"
    other = person.page.context.new_page()
    for tab in (person.page, other):
        tab.goto(address)
        tab.fill("#id_typed", f"delete {campaign}")
    for tab in (person.page, other):
        tab.locator("button.danger").click()
        tab.wait_for_load_state()
    expect(person.page).to_have_url(f"{person.url}/deleted/")
    expect(other.get_by_role("main")).to_contain_text("was deleted by alice")


def test_an_operator_is_offered_no_delete(person, campaign, user):
    Membership.objects.filter(user=user).update(role=Role.OPERATOR)
    person.page.reload()
    expect(main(person).get_by_role("button", name="Rename…")).to_be_visible()
    expect(main(person).get_by_role("button", name="Delete…")).to_have_count(0)
    assert person.page.goto(f"/campaigns/{campaign.pk}/delete/").status == 403


def test_a_teams_rule_on_raw_output(person, team):
    person.page.goto(f"/team/{team.pk}/")
    person.page.fill("#id_keep_raw_days", "0")
    person.page.locator("#id_keep_raw_days").evaluate("one => one.removeAttribute('min')")
    form = person.page.locator("form").filter(has=person.page.locator("#id_keep_raw_days"))
    form.get_by_role("button").last.click()
    expect(main(person)).to_contain_text("greater than or equal to 1")
    person.page.fill("#id_keep_raw_days", "30")
    form.get_by_role("button").last.click()
    person.page.goto(f"/team/{team.pk}/")
    expect(person.page.locator("#id_keep_raw_days")).to_have_value("30")
    person.look("team-rule")
    assert wrong(person) == []


@pytest.mark.slow
def test_without_script(campaign, chromium, live_server):
    person = Person(chromium, live_server.url, javascript=False)
    person.log_in("alice", "alice-password")
    person.page.goto(f"/campaigns/{campaign.pk}/")
    rename(person, "Without script")
    person.press("Delete…")
    person.page.fill("#id_typed", "delete Without script")
    main(person).get_by_role("button", name="Delete Without script").click()
    expect(person.page).to_have_url(f"{person.url}/deleted/")
    main(person).get_by_role("button", name="Bring back Without script").click()
    expect(main(person).get_by_role("heading", level=1)).to_contain_text("Without script")
    person.close()
