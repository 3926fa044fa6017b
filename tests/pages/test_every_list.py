"""Every table that is a list: heads sort both ways, one field filters, and what is not understood is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchlab.audit import chain
from benchlab.campaigns.models import Campaign
from benchlab.dynamo.models import Binary
from benchlab.hosts import discovery, registration
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.imports import drafts
from benchlab.imports.models import Storing
from benchlab.pages.audit import PER_PAGE
from benchlab.sharing.models import SavedView, Share
from benchlab.team import tokens
from benchlab.team.models import Invitation, Membership, Team
from benchlab.team.roles import Role
from benchlab.web.texts import natural_key, natural_sql
from tests.charts import made
from tests.hosts.conftest import disk, facts
from tests.people import with_session

NAMES = ("sd 10", "sd 2", "sd 1")
TEMPLATES = Path(__file__).parents[2] / "templates"
# Every page with a table that is sorted by its heads -> its template, the column that is sorted by in what follows, a
# text that few of its rows have.
LISTS = {
    "/hosts/": ("hosts/list.html", "name", "sd 10"),
    "/hosts/{host}/": ("hosts/_devices.html", "name", "sdb10"),
    "/hosts/{host}/facts/": ("hosts/history.html", "taken", "2026-01-10"),
    "/dynamo/": ("dynamo/dynamo.html", "name", "sd 10"),
    "/hosts/keys/": ("hosts/credentials.html", "name", "sd 10"),
    "/campaigns/": ("campaigns/_table.html", "name", "sd 10"),
    "/topologies/": ("topologies/list.html", "name", "sd 10"),
    "/workloads/": ("workloads/list.html", "name", "sd 10"),
    "/import/": ("imports/new.html", "name", "sd 10"),
    "/library/": ("imports/library.html", "campaign", "sd 10"),
    "/shares/": ("sharing/shares.html", "shows", "sd 10"),
    "/views/": ("sharing/views.html", "name", "sd 10"),
    "/team/": ("team/teams.html", "team", "sd 10"),
    "/team/{team}/": ("team/detail.html", "name", "sd10"),
    "/site/users/": ("team/users.html", "name", "sd10"),
    "/site/teams/": ("team/site_teams.html", "name", "sd 10"),
    "/api/token/": ("team/api_token.html", "name", "sd 10"),
    "/deleted/": ("lifecycle/deleted.html", "name", "sd 10"),
    "/account/sessions/": ("usersessions/usersession_list.html", "since", "2026-01-10"),
    "/audit/": ("audit/log.html", "who", ""),  # which has a filter of its own
}

# What no list sorts by.
ODD = ("colour", "--name", "-", "actions", "name'", "pk", "name,made", "\0", "é" * 500)


@pytest.fixture
def lab(team, user, worker_seen) -> dict[str, int]:
    """Three rows of everything. What addresses name, by the word that LISTS has for it."""
    user.is_superuser = True
    user.save()
    library = Team.objects.get_or_create(library=True, defaults={"name": "Library"})[0]
    for number, name in enumerate(NAMES):
        host = made.host(team, name)
        Host.objects.filter(pk=host.pk).update(address=f"192.0.2.{number}")
        made.topology(team, name), made.workload(team, name)
        key = registration.make_credential(team, name)
        # Lists find keys by their text, too, and by chance "10" is in it.
        team.credentials.filter(pk=key.pk).update(public_key=f"ssh-ed25519 AAAA{number} benchlab")
        campaign = Campaign.objects.create(team=team, name=name, seed=1)
        Campaign.objects.create(
            team=library,
            name=name,
            seed=1,
            source=Campaign.Source.LIBRARY,
            origin={"title": "An article"},
        )
        gone = made.workload(team, f"{name} gone")
        gone.deleted_at, gone.deleted_by = timezone.now() - timedelta(hours=number), name
        gone.save()
        draft = drafts.create_draft(
            team=team, user=user, uploads=[drafts.pasted_upload("RATE 1\n")]
        )
        team.drafts.filter(pk=draft.pk).update(name=name)
        Share.objects.create(
            team=team, kind="campaign", object_id=campaign.pk, name=name, digest=f"{number}", by=user,
            expires_at=timezone.now() + timedelta(days=number),
        )  # fmt: skip
        SavedView.objects.create(team=team, name=name, query=f"campaign={campaign.pk}", by=user)
        person = User.objects.create_user(name.replace(" ", ""), email=f"{number}@example.org")
        role = list(Role)[number]
        Membership.objects.create(team=team, user=person, role=role)
        other = Team.objects.create(name=name)
        Membership.objects.create(team=other, user=user, role=role)
        tokens.create_token(user, name, role, number + 1, None)
        Invitation.objects.create(
            team=team,
            role=role,
            email=f"{name.replace(' ', '')}@example.org",
            digest=f"{number}",
            invited_by=user,
            expires_at=timezone.now() + timedelta(days=number + 1),
        )
        there = with_session(user)
        at = datetime(2026, 1, int(name.split()[1]), tzinfo=UTC)
        UserSession.objects.create(
            user=user, session_key=there.session.session_key, ip=f"192.0.2.{number}", created_at=at
        )
        Binary.objects.create(
            team=team,
            name=name,
            version="1.1.0",
            sha256=f"{number}",
            size=number,
            content=b"",
            uploaded_by=user,
        )
        chain.add_entry(
            "destroy", actor=str(person), actor_id=person.pk, team_id=team.pk, subject=name
        )
    disks = [disk("sdb10", size=2**30), disk("sdb2", size=2**31), disk("sdb1", size=2**29)]
    host = Host.objects.get(name="sd 1")
    for number in (10, 2, 1):
        read = FactSnapshot.objects.create(host=host, boot_id=f"boot {number}", facts={})
        at = datetime(2026, 1, number, tzinfo=UTC)
        FactSnapshot.objects.filter(pk=read.pk).update(taken_at=at)
    discovery.store_facts(host, facts(*disks))
    return {"host": host.pk, "team": team.pk}


def rows(answer: Any, template: str) -> list[str]:
    """The first cell that is a head of its row, of each row of the table."""
    assert answer.status_code == 200
    assert template in [one.name for one in answer.templates]
    table = answer.text[answer.text.index("<thead>") :]
    body = table.partition("<tbody>")[2].partition("</tbody>")[0]
    found = re.findall(r'<th scope="row">(.*?)</th>', body, re.DOTALL)
    return [unescape(re.sub("<br>.*|<[^>]+>", "", one, flags=re.DOTALL)).strip() for one in found]


def heads(answer: Any) -> list[str]:
    """The addresses that the first table's heads lead to."""
    text = answer.text.partition("<thead>")[2].partition("</thead>")[0]
    assert "aria-sort" not in text
    return [unescape(link) for link in re.findall(r'href="(\?sort=[^"]*)"', text)]


def test_every_table_with_heads_that_sort_is_here():
    has = {
        str(path.relative_to(TEMPLATES))
        for path in TEMPLATES.rglob("*.html")
        if "lists/_heads.html" in path.read_text()
    }
    # A run's devices at one instant have no filter: charts/test_instant.py.
    assert has == {*(template for template, _, _ in LISTS.values()), "charts/_instant.html"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("url", LISTS)
def test_heads_sort_both_ways(web, lab, url):
    template, word, _ = LISTS[url]
    url = url.format(**lab)
    plain = web.get(url)
    links = heads(plain)
    assert f"?sort={word}" in [link.partition("#")[0] for link in links]
    for link in links:
        there = link.partition("#")[0]
        up, down = web.get(url + there), web.get(url + there.replace("sort=", "sort=-"))
        assert sorted(rows(up, template)) == sorted(rows(plain, template))
        assert sorted(rows(down, template)) == sorted(rows(plain, template))
        assert up.text.count('aria-sort="ascending"') == up.text.count("<thead>") - others(up)
        assert 'aria-sort="descending"' in down.text and 'aria-sort="ascending"' not in down.text
    ordered = rows(web.get(f"{url}?sort={word}"), template)
    assert rows(web.get(f"{url}?sort=-{word}"), template) == ordered[::-1]
    ours = [] if word == "who" else [one for one in ordered if re.match("sd", one)]  # by its index
    assert ours == sorted(
        ours, key=lambda one: int(re.findall(r"\d+", one)[-1]) if re.search(r"\d", one) else 0
    )


def others(answer: Any) -> int:
    """Tables of the page that are no lists, or its second one."""
    heads = re.findall("<thead>(.*?)</thead>", answer.text, re.DOTALL)
    return sum("invited_sort" in one or "?sort=" not in one for one in heads)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("url", LISTS)
def test_what_is_no_column_is_refused_with_those_there_are(web, lab, url):
    word = LISTS[url][1]
    url = url.format(**lab)
    words = sorted(one.partition("=")[2].partition("#")[0] for one in heads(web.get(url)))
    for odd in ODD:
        answer = web.get(url, {"sort": odd})
        assert answer.status_code == 400, odd
        said = said_by(answer)
        assert said.startswith("sort: ") and f"there are {', '.join(words)}." in said
        assert repr(odd.removeprefix("-")[:40]) in said
    assert web.get(url, {"sort": ""}).status_code == 200
    assert web.get(url, {"sort": [word, "colour"]}).status_code == 400


@pytest.mark.one_in(4)
@pytest.mark.parametrize("url", LISTS)
def test_what_is_no_filter_is_refused_with_those_there_are(web, lab, url):
    text = LISTS[url][2]
    url = url.format(**lab)
    for odd in ("colour", "name", "Q", "sort ", "q[]", "", "archive", "cursor"):
        answer = web.get(url, {odd: "sd"})
        assert answer.status_code == 400, odd
        said = said_by(answer)
        assert said.startswith(f"{odd!r}: no such parameter; there are sort, ")
        assert (", q, " in said) == bool(text)
    assert web.get(url, {"page": "1"}).status_code == 200


@pytest.mark.parametrize("url", ["/campaigns/", "/topologies/", "/workloads/"])
def test_what_is_archived_is_asked_for_by_true_or_false(web, lab, url):
    for known in ("true", "false", ""):
        assert web.get(url, {"archived": known}).status_code == 200
    answer = web.get(url, {"archived": "perhaps"})
    assert answer.status_code == 400
    assert said_by(answer) == "archived: give true or false, not 'perhaps'."


def test_the_logs_csv_knows_what_its_page_knows(web, lab):
    assert web.get("/audit/audit.csv?sort=when&action=destroy").status_code == 200
    answer = web.get("/audit/audit.csv?acton=destroy")
    assert answer.status_code == 400 and "acton" in said_by(answer)


def said_by(answer: Any) -> str:
    found = re.search('<p role="alert">(.*?)</p>', answer.text, re.DOTALL)
    assert found
    return unescape(found[1])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("url", [url for url, (_, _, text) in LISTS.items() if text])
def test_one_field_filters_and_keeps_the_order(web, lab, url):
    template, word, text = LISTS[url]
    url = url.format(**lab)
    answer = web.get(url, {"q": text.upper(), "sort": f"-{word}"})
    found = rows(answer, template)
    assert found and all(text in one for one in found)
    assert f'<input type="hidden" name="sort" value="-{word}">' in answer.text
    assert f"q={text.upper().replace(' ', '+')}&amp;sort={word}" in answer.text
    none = web.get(url, {"q": "nosuch"})
    assert none.status_code == 200 and "Nothing here has “nosuch”" in none.text


def test_disks_are_sorted_by_bytes_and_by_use(web, lab):
    url = f"/hosts/{lab['host']}/"
    template = "hosts/_devices.html"
    assert rows(web.get(url), template) == ["sda", "sdb1", "sdb2", "sdb10"]
    assert rows(web.get(f"{url}?sort=size"), template)[0] == "sdb1"
    assert rows(web.get(f"{url}?sort=-size"), template)[0] == "sdb2"
    assert rows(web.get(f"{url}?sort=use"), template)[-1] == "sda"  # the system's
    assert rows(web.get(f"{url}?q=free"), template) == ["sdb1", "sdb2", "sdb10"]
    assert 'action="#disks"' in web.get(url).text and '?sort=size#disks"' in web.get(url).text


def test_a_digit_that_is_no_number_is_a_letter():
    """A superscript two: Python calls it a digit, and cannot read it."""
    assert sorted(["sd²", "sd10", "sd2"], key=natural_key)[:2] == ["sd2", "sd10"]
    assert natural_key("²") == [(-1, "²")]


def test_sizes_are_sorted_as_sizes_by_pages_and_by_the_database(team):
    names = ["r 4 KiB", "r 64 KiB", "r 256 KiB", "r 1 MiB", "r 16MiB", "r 1 GiB", "s 2", "s 10"]
    shuffled = sorted(names)
    assert shuffled != names and sorted(shuffled, key=natural_key) == names
    with connection.cursor() as cursor:
        order = natural_sql("name")
        cursor.execute(f"SELECT name FROM unnest(%s::text[]) AS name ORDER BY {order}", [shuffled])
        assert [name for (name,) in cursor] == names


def test_workloads_are_sorted_by_their_points(web, lab, team):
    for name, many in (("sd 10", 1), ("sd 2", 2), ("sd 1", 10)):
        team.workloads.filter(name=name).update(sweep={"iodepth": [*range(1, many + 1)], "x": [1]})
    found = rows(web.get("/workloads/?sort=points&q=sd"), "workloads/list.html")
    assert found == ["sd 10", "sd 2", "sd 1"]


def test_imports_are_sorted_by_what_needs_a_person(web, lab, team):
    """As each row says it."""
    now = timezone.now()
    team.drafts.filter(name="sd 1").update(trouble="no")
    team.drafts.filter(name="sd 2").update(stored_at=now, agreed_at=now, trouble="at first")
    found = web.get("/import/?sort=state")
    assert rows(found, "imports/new.html") == ["sd 1", "sd 10", "sd 2"]
    said = [
        found.text.index(f"<td>{one.label}<") for one in Storing if one is not Storing.UNDER_WAY
    ]
    assert said == sorted(said)
    team.drafts.filter(name="sd 10").update(agreed_at=now, trouble="once")
    ranked = team.drafts.annotate(rank=Storing.state_order())
    assert {row.rank == row.storing for row in ranked} == {True}


def test_roles_are_sorted_by_what_they_may(web, lab):
    found = rows(web.get(f"/team/{lab['team']}/?sort=role"), "team/detail.html")
    assert found[:2] == ["sd10", "sd2"]  # a viewer, an operator


def test_the_second_list_of_a_page_has_parameters_of_its_own(web, lab):
    """Invitations: sorted and filtered beside the members, whose order stays."""
    url = f"/team/{lab['team']}/"

    def shown(query: dict[str, str]) -> list[str]:
        text = web.get(url, query).text.partition('id="invited-title"')[2]
        return re.findall('<th scope="row">(.*?)@example.org</th>', text)

    for column, up in {
        "for": ["sd1", "sd2", "sd10"],
        "as": ["sd10", "sd2", "sd1"],
        "ends": ["sd10", "sd2", "sd1"],
    }.items():
        assert shown({"invited_sort": column}) == up
        assert shown({"invited_sort": f"-{column}", "sort": "role"}) == up[::-1]
    assert shown({"invited_q": "SD10", "q": "sd2"}) == ["sd10"]
    page = web.get(url, {"invited_q": "nosuch", "invited_sort": "by", "sort": "-name"})
    assert "Nothing here has “nosuch”" in page.text
    assert rows(page, "team/detail.html")[:2] == ["sd10", "sd2"]
    assert "?invited_q=nosuch&amp;invited_sort=by&amp;sort=name#members-title" in page.text
    assert said_by(web.get(url, {"invited_sort": "colour"})).startswith("invited_sort: ")
    known = said_by(web.get(url, {"invited": "1"}))
    assert all(one in known for one in ("sort", "q", "invited_sort", "invited_q"))


def test_who_owns_no_team_has_no_second_list(web, lab, user, team):
    Membership.objects.filter(team=team, user=user).update(role=Role.VIEWER)
    url = f"/team/{team.pk}/"
    assert "invited-title" not in web.get(url).text
    assert web.get(url, {"invited_sort": "for"}).status_code == 400


def test_pages_and_filters_of_the_log_keep_its_order(web, user, team, lab):
    for number in range(PER_PAGE + 20):
        chain.add_entry("note", actor=str(user), team_id=team.pk, subject=f"entry {number}")
    first = web.get("/audit/?sort=when&action=note").text
    assert '<input type="hidden" name="sort" value="when">' in first
    following = re.search(r'href="([^"]*)" rel="next"', first)
    assert following and {"sort=when", "action=note"} <= set(unescape(following[1])[1:].split("&"))
    second = web.get(f"/audit/{unescape(following[1])}").text
    shown = [int(one) for text in (first, second) for one in re.findall(r"<td>entry (\d+)", text)]
    assert shown == list(range(PER_PAGE + 20))


def test_the_log_is_read_in_order_however_long_it_is(web, user, team):
    """By an index, either way, not by sorting all of it; in as many queries as a short one takes."""
    chain.add_entry("note", actor=str(user), team_id=team.pk)
    web.get("/audit/")  # the top bar is read once
    with CaptureQueriesContext(connection) as short:
        web.get("/audit/?sort=when")
    with connection.cursor() as cursor:
        cursor.execute(MANY, [team.pk])
        cursor.execute("ANALYZE audit_entry")
    columns = {"when": "at", "who": "actor", "what": "action", "outcome": "outcome"}
    for word, name in columns.items():
        for sign in ("", "-"):
            with CaptureQueriesContext(connection) as long:
                assert web.get(f"/audit/?sort={sign}{word}").status_code == 200
            assert len(long) == len(short)
            plan = plan_of(next(one["sql"] for one in long if READ.search(one["sql"])))
            assert f"audit_by_{name}" in plan and "Sort" not in plan, plan


# Of 20,000 entries, as one statement.
MANY = """
    INSERT INTO audit_entry
        (at, actor, via, address, team_id, action, subject, outcome, details, previous, digest)
    SELECT now() - n * interval '1 s', 'person ' || n %% 50, 'page', '', %s, 'act ' || n %% 40, '',
        CASE n %% 9 WHEN 0 THEN 'refused' ELSE 'done' END, '{}', '', ''
    FROM generate_series(1, 20000) n
"""
READ = re.compile('"details".*ORDER BY')


def plan_of(read: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {read}")
        return "\n".join(line for (line,) in cursor.fetchall())
