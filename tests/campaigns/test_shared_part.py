"""A campaign page's live part is made once for all who may the same; each gets what they would have got alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from benchlab.findings.models import Finding
from benchlab.pages.campaigns import live, views
from benchlab.runs import events
from benchlab.runs.events import ChangeListener
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.sharing import links
from benchlab.team.models import Membership, Team
from benchlab.team.roles import Role
from benchlab.web.shared_answers import SharedAnswers

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
TOKEN = re.compile(r'(name="csrfmiddlewaretoken" value=")([^"]+)')


@pytest.fixture(autouse=True)
def ear(monkeypatch) -> ChangeListener:
    """It listens, and the clock stands still: whatever was made is told for ever, until a change is heard."""
    made = ChangeListener()
    made.start_listening()
    monkeypatch.setattr("benchlab.runs.events.MAX_AGE_S", 3600.0)
    monkeypatch.setattr(live, "change_listener", made)
    monkeypatch.setattr(live, "RENDERED_PARTS", SharedAnswers[str]())
    return made


@pytest.fixture
def made(monkeypatch) -> list[str]:
    """Names of those for whom the part was made."""
    found: list[str] = []
    shown = views._page_context

    def noted(request, campaign, *, now):
        found.append(request.user.username)
        return shown(request, campaign, now=now)

    monkeypatch.setattr(views, "_page_context", noted)
    return found


@pytest.fixture
def troubled(campaign, user):
    """With a button for each role: retry, tear down, release, dismiss."""
    layout = campaign.layouts.get()
    campaign.layouts.update(
        phase=LayoutPhase.STUCK, outcome=Outcome.FAILED, trouble="sdb has an xfs signature"
    )
    first, second = Attempt.objects.order_by("run__position")[:2]
    Attempt.objects.filter(pk=first.pk).update(
        phase=AttemptPhase.DONE, outcome=Outcome.FAILED, reason="tool_failed"
    )
    Attempt.objects.filter(pk=second.pk).update(
        phase=AttemptPhase.DONE, outcome=Outcome.SUCCEEDED, layout=layout
    )
    Finding.objects.create(
        campaign=campaign, attempt=second, kind="cached_read", says="90 % came from a cache",
        severity="doubt", runs=[second.run_id],
    )  # fmt: skip
    return campaign


def person(name: str, **roles: Role) -> Client:
    """Of teams by their names; with forms that ask for a token."""
    user = User.objects.create_user(name)
    for team, role in roles.items():
        Membership.objects.create(team=Team.objects.get(name=team), user=user, role=role)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    return client


def everybody() -> dict[str, Client]:
    Team.objects.create(name="Beside")
    found = {role.value: person(role.value, Storage=role) for role in Role}
    found["a viewer, owner elsewhere"] = person("elsewhere", Storage=Role.VIEWER, Beside=Role.OWNER)
    return found


def part(client: Client, campaign, query: str = "?running=-&results=-") -> str:
    headers = {"HX-Request": "true", "HX-Target": "campaign-now"}
    answer = client.get(reverse("campaign-detail", args=[campaign.pk]) + query, headers=headers)
    assert answer.status_code == 200
    return answer.text


def plain(text: str) -> str:
    """Without what each person has for themselves."""
    return TOKEN.sub(r"\1", text)


def orders(names: list[str]) -> Iterator[list[str]]:
    """Each name first once with the others behind it, and once the other way round."""
    for at in range(len(names)):
        order = [*names[at:], *names[:at]]
        yield order
        yield order[::-1]


DEEDS = ("/retry/", "/teardown/", "/release/", "/dismiss/")


def test_whoever_asks_first_each_gets_what_they_may(troubled, ear):
    people = everybody()
    alone = {}
    for name, client in people.items():
        # Nothing that was made before counts.
        ear.record_change(events.campaign_channel(troubled.pk))
        alone[name] = plain(part(client, troubled))
    deeds = {name: [deed for deed in DEEDS if deed in text] for name, text in alone.items()}
    assert deeds == {
        "viewer": [], "operator": ["/retry/", "/teardown/", "/dismiss/"], "owner": list(DEEDS),
        "a viewer, owner elsewhere": [],
    }  # fmt: skip
    for order in orders([*people]):
        ear.record_change(events.campaign_channel(troubled.pk))
        for name in order:
            assert plain(part(people[name], troubled)) == alone[name], (name, order)


def test_it_is_made_once_for_all_who_may_the_same(troubled, made):
    people = [person(f"operator {n}", Storage=Role.OPERATOR) for n in range(3)]
    viewers = [person(f"viewer {n}", Storage=Role.VIEWER) for n in range(3)]
    texts = [part(client, troubled) for client in (*people, *viewers, *people)]
    assert made == ["operator 0", "viewer 0"]
    assert len({plain(text) for text in texts}) == 2


def test_what_was_heard_is_told(troubled, made, ear):
    client = person("operator", Storage=Role.OPERATOR)
    assert "Tear down again" in part(client, troubled)
    troubled.layouts.update(phase=LayoutPhase.TEARING_DOWN)
    ear.record_change(events.campaign_channel(troubled.pk + 1))
    assert "Tear down again" in part(client, troubled)
    ear.record_change(events.campaign_channel(troubled.pk))
    assert "Tear down again" not in part(client, troubled)
    assert len(made) == 2


def test_who_does_not_listen_has_it_made_anew(troubled, made, ear):
    ear.stop_listening()
    for _ in range(2):
        part(person(f"operator {len(made)}", Storage=Role.OPERATOR), troubled)
    assert len(made) == 2


def test_what_is_asked_differently_is_another_answer(troubled, made):
    client = person("operator", Storage=Role.OPERATOR)
    assert 'id="campaign-results"' in part(client, troubled, "?running=-&results=-")
    log = part(client, troubled, "?running=-&results=-&log=all")
    assert "log=all" in log and len(made) == 2
    part(client, troubled, "?running=-&results=-&q=" + "x" * 100)
    assert len(made) == 3


def test_each_has_a_token_of_their_own_and_it_works(troubled, made):
    clients = [person(f"operator {n}", Storage=Role.OPERATOR) for n in range(2)]
    tokens = [{token for _, token in TOKEN.findall(part(one, troubled))} for one in clients]
    assert made == ["operator 0"]
    assert [len(some) for some in tokens] == [1, 1] and tokens[0] != tokens[1]
    url = reverse("campaign-pause", args=[troubled.pk])
    answers = [
        client.post(url, {"csrfmiddlewaretoken": one}).status_code
        for client, other in itertools.product(clients, (0, 1))
        for one in tokens[other]
    ]
    assert answers == [302, 403, 403, 302]


def test_what_stands_for_the_token_never_leaves(troubled):
    people = everybody()
    for client in (*people.values(), *people.values()):
        assert live.TOKEN not in part(client, troubled)


def test_a_plan_is_made_for_each(campaign, made):
    """It tells what the person typed in it wrongly."""
    for number in range(2):
        client = person(f"operator {number}", Storage=Role.OPERATOR)
        part(client, campaign, "?running=&results=&plan=pending")
    assert made == ["operator 0", "operator 1"]


def test_the_whole_page_is_never_somebody_elses(troubled, made):
    for number in range(2):
        client = person(f"operator {number}", Storage=Role.OPERATOR)
        assert f"operator {number}" in client.get(f"/campaigns/{troubled.pk}/").text
    assert made == ["operator 0", "operator 1"]


def test_it_was_made_already_and_still_strangers_guests_and_other_teams_get_nothing(
    troubled, user, other_user
):
    part(person("operator", Storage=Role.OPERATOR), troubled)
    url = reverse("campaign-detail", args=[troubled.pk]) + "?running=-&results=-"
    headers = {"HX-Request": "true", "HX-Target": "campaign-now"}
    assert Client().get(url, headers=headers).status_code == 302
    bob = Client()
    bob.force_login(other_user)
    assert bob.get(url, headers=headers).status_code == 404
    wish = links.check_target(user, "campaign", troubled.pk, "")
    token = links.create_link(wish, user, hide_hosts=True)[1]
    guest = Client().get(f"/s/{token}/", headers=headers)
    assert guest.status_code == 200
    assert "sdb has an xfs" not in guest.text and not any(deed in guest.text for deed in DEEDS)


def test_who_left_the_team_or_became_less_is_told_so_at_once(troubled):
    owner, operator = person("o", Storage=Role.OWNER), person("p", Storage=Role.OPERATOR)
    assert "/release/" in part(owner, troubled) and "/retry/" in part(operator, troubled)
    Membership.objects.filter(user__username="o").update(role=Role.VIEWER)
    assert not any(deed in part(owner, troubled) for deed in DEEDS)
    Membership.objects.filter(user__username="o").delete()
    url = reverse("campaign-detail", args=[troubled.pk])
    assert owner.get(url, headers={"HX-Target": "campaign-now"}).status_code == 404
