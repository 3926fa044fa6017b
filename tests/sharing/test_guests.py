"""A guest's view: one thing, until it ends, and nothing of the rest by any address."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from benchlab.hosts.models import Host
from benchlab.rest.urls import router
from benchlab.sharing import links
from benchlab.sharing.models import Share
from tests.shares import quick_has_first
from tests.sharing.conftest import ADDRESS, HOST, SECRET, SERIAL, link_of
from tests.team.test_table import PAGES

KINDS = ("run", "comparison", "campaign", "report")
OF_RUNS = ("shared-devices", "shared-histogram", "shared-cpu", "shared-series")
OF_CHARTS = ("shared-figure", "shared-csv")


def addresses(token: str, kind: str) -> list[str]:
    """Every address under the link that answers."""
    names = ["shared", "shared-embed", *(OF_RUNS if kind == "run" else OF_CHARTS)]
    found = [reverse(name, args=[token]) for name in names]
    if kind == "run":
        found.append(reverse("shared-cache", args=[token, "zpool"]))
    else:
        figure = reverse("shared-figure", args=[token])
        found += [
            f"{figure}?metric=bandwidth",
            f"{figure}?latency=clat.all",
            f"{found[0]}?metric=bandwidth",
        ]
    return found


def texts(answer: Any) -> str:
    """As a reader gets it: without HTML's and JSON's own spelling."""
    raw = answer.content.decode()
    if answer["Content-Type"] == "application/json":
        return json.dumps(json.loads(raw), ensure_ascii=False)
    return raw + html.unescape(raw)


@pytest.mark.parametrize("kind", KINDS)
def test_no_hidden_name_in_any_answer(lab, guest, kind):
    lab.attempts[0].run.campaign.team.name = "t"
    _, token = link_of(lab, kind)
    for address in addresses(token, kind):
        answer = guest.get(address)
        assert answer.status_code == 200, address
        told = texts(answer) + str(answer.headers)
        for secret in SECRET:
            assert secret.lower() not in told.lower(), f"{secret} in {address}"
    page = texts(guest.get(f"/s/{token}/"))
    assert "host A" in page
    assert ("host B" in page) == (kind != "run")


@pytest.mark.parametrize("kind", KINDS)
def test_with_host_names_there_is_still_no_person_and_no_address(lab, guest, kind):
    _, token = link_of(lab, kind, hide=False)
    for address in addresses(token, kind):
        told = texts(guest.get(address))
        assert ADDRESS not in told and "alice" not in told, address
    assert HOST in texts(guest.get(f"/s/{token}/"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_leads_nowhere_but_to_itself(lab, guest, kind):
    """No link into the app, in pages and in figures; no form that sends anything."""
    _, token = link_of(lab, kind, hide=False)
    for address in addresses(token, kind):
        raw = guest.get(address).content.decode()
        targets = re.findall(r'(?:href|src|action|data-figure-url|hx-\w+)="([^"]*)"', raw)
        wrong = [t for t in targets if t and not t.startswith((f"/s/{token}/", "/static/", "#"))]
        assert wrong == [], address
        assert not re.search(
            r'method="post"|csrfmiddlewaretoken|/runs/\d|/campaigns/|click opens', raw
        ), address


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_remembers_the_link(lab, guest, kind):
    _, token = link_of(lab, kind)
    for address in addresses(token, kind):
        answer = guest.get(address)
        assert answer["Cache-Control"] == "no-store"
        assert answer["Referrer-Policy"] == "no-referrer"
        assert "noindex" in answer["X-Robots-Tag"]
        assert not answer.cookies
    assert '<meta name="robots" content="noindex' in guest.get(f"/s/{token}/").content.decode()


def test_only_the_chart_may_be_framed(lab, guest):
    _, token = link_of(lab, "campaign")
    for address in addresses(token, "campaign"):
        answer = guest.get(address)
        policy = answer["Content-Security-Policy"]
        if "/embed/" in address:
            assert "X-Frame-Options" not in answer.headers
            assert "frame-ancestors *" in policy
        else:
            assert answer["X-Frame-Options"] == "DENY"
            assert "frame-ancestors *" not in policy
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy.replace("style-src-attr 'unsafe-inline'", "")


def gone(answer: Any) -> str:
    assert answer.status_code == 404
    assert answer["Cache-Control"] == "no-store"
    return str(answer.content.decode())


def plain(text: str) -> str:
    return re.sub(r'nonce="[^"]*"', "", text)


def test_what_is_over_says_so_and_not_what_it_was(lab, guest):
    never = plain(gone(guest.get("/s/never-was-one/")))
    expired, revoked = link_of(lab, "campaign"), link_of(lab, "campaign")
    Share.objects.filter(pk=expired[0].pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    links.revoke_link(revoked[0])
    for share, token in (expired, revoked):
        for address in addresses(token, "campaign"):
            assert plain(gone(guest.get(address))) == never
        share.refresh_from_db()
        assert share.views == 0
    assert "expired" in never and HOST not in never
    assert expired[0].state == "expired" or Share.objects.get(pk=expired[0].pk).state == "expired"


def test_a_link_is_only_its_hash(lab):
    share, token = link_of(lab, "run")
    assert token not in str(Share.objects.filter(pk=share.pk).values())
    assert share.digest == links.token_digest(token)


def test_views_are_counted_and_figures_are_not(lab, guest):
    share, token = link_of(lab, "campaign")
    for address in addresses(token, "campaign")[:4]:
        guest.get(address)
    share.refresh_from_db()
    assert share.views == 2  # the page and the chart in a frame
    assert share.viewed_at


@pytest.mark.parametrize("kind", quick_has_first(KINDS))
def test_no_page_and_no_api_opens_to_a_guest(lab, guest, kind):
    """A guest with a link, whose token is sent in every way, is still a stranger everywhere else."""
    _, token = link_of(lab, kind)
    guest.get(f"/s/{token}/")
    for name, route in PAGES.items():
        path = "/" + re.sub(r"<[^>]*pk>", str(lab.campaign.pk), route)
        path = re.sub(r"<[^>]*>", "campaign", path)
        path = path.replace("^.*/$", "nothing/")  # what stands for every address that there is not
        if name in OPEN or route.startswith("s/"):
            continue
        answer = guest.get(path, {"token": token}, headers={"Authorization": f"Token {token}"})
        assert answer.status_code in (302, 401, 403, 404, 405), f"{name} {path}"
        assert HOST not in answer.content.decode()
    for prefix, _, _ in router.registry:
        for path in (f"/api/{prefix}/", f"/api/{prefix}/{lab.campaign.pk}/"):
            answer = guest.get(path, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code in (401, 403, 404, 405), path


OPEN = {name for name in PAGES if name.startswith(("account_", "mfa_", "socialaccount", "openid"))} | {
    "healthz", "readyz", "login", "logout", "join", "shared"}  # fmt: skip


@pytest.mark.parametrize(("kind", "names"), [("run", OF_CHARTS), ("campaign", OF_RUNS)])
def test_a_link_has_only_its_own_kind_of_addresses(lab, guest, kind, names):
    _, token = link_of(lab, kind)
    for name in names:
        gone(guest.get(reverse(name, args=[token])))


def test_a_wrong_word_is_told_without_a_page(lab, guest):
    _, token = link_of(lab, "campaign")
    answer = guest.get(f"/s/{token}/figure.json?metric=no.such.metric")
    assert answer.status_code == 400
    assert answer["Content-Type"].startswith("text/plain") and answer["Cache-Control"] == "no-store"


def test_a_link_to_what_is_gone_is_over(lab, guest):
    share, token = link_of(lab, "run")
    Share.objects.filter(pk=share.pk).update(object_id=10**12)
    gone(guest.get(f"/s/{token}/"))


def test_nothing_can_be_done_with_a_link(lab, guest):
    _, token = link_of(lab, "campaign")
    for address in addresses(token, "campaign"):
        assert guest.post(address).status_code == 405


def test_a_link_of_another_team_cannot_be_wished_for(lab, other_user):
    from django.core.exceptions import ValidationError
    from django.http import Http404

    for kind, about in (("run", lab.run.pk), ("campaign", lab.campaign.pk)):
        with pytest.raises(Http404):
            links.check_target(other_user, kind, about)
    with pytest.raises(ValidationError):
        links.check_target(other_user, "comparison", None, f"campaign={lab.campaign.pk}")


def test_numbers_stay_what_they_are_beside_hosts_with_odd_names(lab, guest):
    """A host that is called as a number is must not become part of one."""
    Host.objects.filter(pk=lab.hosts[0].pk).update(name="16")
    Host.objects.filter(pk=lab.hosts[1].pk).update(name="e")
    _, token = link_of(lab, "campaign")
    hidden = guest.get(f"/s/{token}/figure.json").json()
    shown = guest.get(f"/s/{link_of(lab, 'campaign', hide=False)[1]}/figure.json").json()
    assert [t["y"] for t in hidden["data"]] == [t["y"] for t in shown["data"]]
    assert hidden["layout"]["xaxis"]["ticktext"] == shown["layout"]["xaxis"]["ticktext"]
    rows = guest.get(f"/s/{token}/numbers.csv").content.decode().splitlines()[1:]
    assert {row.split(",")[1] for row in rows} == {"host A", "host B"}


def test_somebody_with_an_account_sees_what_a_guest_sees(lab, guest, web):
    User.objects.create_user("carol", password="x")
    _, token = link_of(lab, "report")
    assert plain(web.get(f"/s/{token}/").content.decode()) == plain(
        guest.get(f"/s/{token}/").content.decode()
    )


def test_the_alias_of_a_disk_is_the_same_everywhere(lab, guest):
    _, token = link_of(lab, "run")
    zpool = guest.get(f"/s/{token}/caches/zpool.json").content.decode()
    series = guest.get(f"/s/{token}/series.csv").content.decode()
    page = guest.get(f"/s/{token}/").content.decode()
    for told in (zpool, series, page):
        assert "disk A1" in told and SERIAL not in told


def test_a_guest_of_a_run_sees_how_long_its_ios_took(lab, guest):
    _, token = link_of(lab, "run")
    page = guest.get(f"/s/{token}/").content.decode()
    assert "Histogram of latencies" in page and f"/s/{token}/histogram.json" in page
    assert "Took less" in page and "histogram.csv" not in page
    assert len(guest.get(f"/s/{token}/histogram.json").json()["data"]) == 3
