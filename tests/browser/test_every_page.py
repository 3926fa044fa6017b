"""Every page there is, found by walking the addresses, in a browser: on a phone, a desk and a wall, in both themes.

Each has one heading, a title, is no wider than the screen, and axe, the policy and the console have no word to say.
Where the test is named, or BENCHLAB_SHOTS names a folder, pictures are left for a person to look at (person.py).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents.plans import applied_part
from benchlab.campaigns.models import Campaign
from benchlab.hosts import discovery, package_installs, registration
from benchlab.imports import drafts, reference_library
from benchlab.imports.reference_library import articles
from benchlab.pages import documents as documents
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.runs.states import LayoutPhase
from benchlab.team import permissions
from benchlab.team.levels import Level
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from benchlab.testing import profiles
from tests.browser.axe import violations
from tests.browser.person import Person
from tests.browser.test_home import lab as at_work  # noqa: F401
from tests.browser.test_import import ARTICLE
from tests.browser.test_plan_pages import a_layout
from tests.charts import made
from tests.hosts.conftest import credential_key
from tests.runs.test_orphans import left_by
from tests.team.test_table import PAGES, TOKEN, quiet, rows, url  # noqa: F401
from tests.topologies.plans import cached, many_disks
from tests.topologies.plans import made as planned

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

WIDTHS = {"phone": (390, 844), "desk": (1440, 900), "wall": (1920, 1080)}
LOOKS = tuple(itertools.product(WIDTHS, ("light", "dark")))
FILE = re.compile(r"\.(json|csv|icf|html|zip)$")  # of a route: what is got there is no page
# What the walk does not show, and why.
NOT_WALKED = {
    "healthz": "one word for a machine",
    "readyz": "some words for a machine",
    "metrics": "numbers for a machine",
    "schema": "the API's, for a machine",
    "api-root": "the API's, for a machine",
    "api-nowhere": "the API's, for a machine",
    "artifact-download": "a file",
    "shared-artifact": "a file",
    "source-download": "a file",
    "made-report": "a file",
    "document-picture": "a file",
    "campaign-events": "a stream",
    "attempt-strips": "a part of a campaign's page, asked for by itself",
    "attempt-now": "a part of a run's page, asked for by itself",
    "run-words": "a part of the page of runs, asked for by itself",
    "campaign-report-made": "a part of a report's page, asked for by itself",
    "view-report-made": "a part of a report's page, asked for by itself",
    "campaign-again": "leads to the wizard, filled in, which is looked at",
    "run-compare": "leads to the comparison, which is looked at",
    "account_set_password": "leads to the change of a password for whoever has one",
    "socialaccount_signup": "needs a provider's answer: test_accounts has one",
    "openid_connect_login": "leads to a provider",
    "openid_connect_callback": "comes from a provider",
}  # fmt: skip
# Only whoever has a second factor sees them.
CAREFUL = (
    "mfa_deactivate_totp",
    "mfa_view_recovery_codes",
    "mfa_generate_recovery_codes",
    "mfa_reauthenticate",
)
# For the password
ASKS_AGAIN = {"account-email", "mfa_activate_totp", *CAREFUL} - {"mfa_reauthenticate"}
TOOLS = ("fio", "dd", "command")
# And the browser notes that in its console, as it should
REFUSED = {"socialaccount_login_error": 401, "diagnose": 401}


def test_every_address_is_walked_or_named_with_a_why():
    seen = {name for name, rule in permissions.PAGES.items() if rule.see}
    assert set(NOT_WALKED) <= seen and not set(NOT_WALKED) & set(walked())
    assert seen - set(walked()) - set(NOT_WALKED) == {n for n in seen if FILE.search(PAGES[n])}


def walked() -> list[str]:
    return [
        name
        for name, rule in permissions.PAGES.items()
        if rule.see and name not in NOT_WALKED and not FILE.search(PAGES[name])
    ]


def some_of(names: Sequence[str]) -> list[str]:
    """Half of them by day, as they are drawn."""
    return profiles.share(f"pages from {names[0]}", names, 2)


@pytest.fixture
def lab(rows, at_work, team, user) -> SimpleNamespace:  # noqa: F811
    """A row of every noun, a campaign in every state, and the reference library."""
    user.is_superuser = True
    user.save()
    Membership.objects.filter(team=team, user=user).update(role=Role.OWNER)
    reference_library.load_library(articles())
    rows.comment.by = user
    rows.comment.save()
    rows.draft = drafts.create_draft(team=team, user=user, uploads=[drafts.pasted_upload(ARTICLE)])
    drafts.read_file(rows.draft.files.get().pk)
    rows.stuck = made.done_layout(made.campaign(team, "It is stuck"), rows.host, rows.topology)
    Layout.objects.filter(pk=rows.stuck.pk).update(phase=LayoutPhase.STUCK, outcome="failed")
    made.sampled_caches(rows.attempts[0])
    return rows


@pytest.fixture
def left(team, rows) -> Layout:  # noqa: F811
    """A layout of which something is still on its host, which lacks packages as well."""
    host = rows.host
    host.credential = registration.make_credential(team, "lab")
    host.host_key = credential_key(host)
    host.seen_at = timezone.now()
    host.save()
    plan = planned(cached(2), many_disks())
    layout = a_layout(team, host, phase="done", outcome="cancelled", ended_at=timezone.now())
    layout.plan = applied_part.to_json(plan)
    layout.save()
    touched = [claim.identity for claim in plan.claims]
    StepLog.objects.create(
        layout=layout, kind="apply", argv=["wipefs"], says="…", destroys=touched, exit_code=0
    )
    discovery.store_facts(host, left_by(layout.name))
    return layout


@pytest.fixture
def waits(team) -> Layout:
    """A layout of twelve disks and an SSD, planned, that nobody agreed to yet."""
    host, found = made.host(team, "lab1"), many_disks()
    plan = planned(cached(), found)
    return a_layout(
        team, host, plan=applied_part.to_json(plan), plan_fingerprint=plan.fingerprint,
        planned_at=timezone.now(), facts_planned=discovery.store_facts(host, found),
    )  # fmt: skip


def faces(name: str, rows: Any, left: Layout, waits: Layout) -> Iterator[str]:  # noqa: F811
    """Addresses of a page: as the table has it, or what shows more of it."""
    its = {
        "workload-new": [f"{reverse('workload-new')}?tool={tool}" for tool in TOOLS],
        "document": [reverse("document", args=[one]) for one in documents.document_names()],
        "layout-release": [reverse("layout-release", args=[rows.stuck.pk])],
        "host-orphan": [reverse("host-orphan", args=[left.host_id, left.pk])],
        "host-install-confirm": [
            f"{url('host-install-confirm', rows)}?package={package_installs.missing_programs(rows.host).packages[0]}"
        ],
        "search": ["/search/?q=stripe"],
        "share-new": [f"{reverse('share-new')}?kind=campaign&object={rows.campaign.pk}"],
        "explore": ["/explore/", f"/explore/?campaign={library()[0].pk}"],
        "compare": ["/compare/", f"/compare/?campaign={rows.campaign.pk}"],
        "shared": ["/s/the-link-of-a-run/", f"/s/{TOKEN}/"],
        "campaign-detail": [
            reverse("campaign-detail", args=[pk])
            for pk in (rows.campaign.pk, waits.campaign_id, rows.stuck.campaign_id, *others())
        ],
        "run-detail": [reverse("run-detail", args=[pk]) for pk in (rows.run.pk, run_of_library())],
        "campaign-report": [
            reverse("campaign-report", args=[pk]) for pk in (rows.campaign.pk, library()[0].pk)
        ],
    }
    yield from its.get(name, [url(name, rows)])
    if name == "home":
        yield "/?wall=1"
        yield "/nothing/here/"  # the page that says so


def library() -> list[Campaign]:
    return list(Campaign.objects.filter(source=Campaign.Source.LIBRARY).order_by("pk"))


def others() -> list[int]:
    """Of the campaigns whose layout is built right now, and the library's."""
    building = Layout.objects.get(phase=LayoutPhase.PROVISIONING).campaign_id
    return [building, *(one.pk for one in library())]


def run_of_library() -> int:
    return Attempt.objects.filter(run__campaign=library()[0]).earliest("pk").run_id


class Walk:
    """Goes from page to page in the looks that are drawn for each, and notes what is wrong."""

    def __init__(self, chromium: Any, url: str) -> None:
        self.person = Person(chromium, url)
        self.page = self.person.page
        self.wrong: list[str] = []
        self.seen = 0

    def log_in(self) -> None:
        self.page.goto("/login/")
        self.page.fill("#id_username", "alice")
        self.page.fill("#id_password", "alice-password")
        self.page.get_by_role("main").get_by_role("button", name="Log in", exact=True).click()
        self.page.wait_for_load_state()

    def confirm(self) -> None:
        self.page.goto(reverse("account_reauthenticate"))
        self.page.fill("#id_password", "alice-password")
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(lambda url: "/again/" not in url)

    def visit(self, name: str, address: str) -> None:
        if name in ASKS_AGAIN:
            self.confirm()
        self.seen += 1
        drawn = profiles.drawn(f"look of {address}", LOOKS, quick=1, more=1)
        for width, looks in itertools.groupby(drawn, key=lambda look: look[0]):
            self._visit(name, address, width, [theme for _, theme in looks])

    def _visit(self, name: str, address: str, width: str, themes: list[str]) -> None:
        across, down = WIDTHS[width]
        self.page.set_viewport_size({"width": across, "height": down})
        self.page.emulate_media(color_scheme=themes[0])
        at = f"{name} {address} {width}"
        answer = self.page.goto(address)
        expected = REFUSED.get(name, 404 if address.startswith("/nothing/") else 200)
        if answer.status != expected or urlsplit(self.page.url).path != address.partition("?")[0]:
            self.wrong.append(f"{at}: {answer.status} at {self.page.url}")
            return
        self.person.drawn()
        self.wrong += [f"{at}: {one}" for one in self._of_the_page(across)]
        for theme in themes:
            self.page.emulate_media(color_scheme=theme)
            self.person.picture(f"{name}-{re.sub('[^a-z0-9]+', '_', address)}-{width}-{theme}")
            self.wrong += [f"{at} {theme}: {one}" for one in violations(self.page)]

    def _of_the_page(self, across: int) -> Iterator[str]:
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        if wide > across:
            yield f"{wide} px wide"
        if (headings := self.page.locator("h1").count()) != 1:
            yield f"{headings} headings of the first level"
        if not re.fullmatch(r"\S.* · BenchLab", self.page.title()):
            yield f"is called {self.page.title()!r}"

    def over(self) -> list[str]:
        """Faults, with what the console said: without answers that were asked for."""
        said = self.person.complaints
        self.person.close()
        return self.wrong + [one for one in said if not re.search(r"status of 40[14]", one)]


@pytest.mark.draws
def test_every_page_in_a_browser(chromium, live_server, lab, left, waits, user):
    stranger, alice, careful = (Walk(chromium, live_server.url) for _ in range(3))
    alice.log_in()
    careful.log_in()
    for name in some_of(walked()):
        anyone = permissions.PAGES[name].see is Level.ANYONE and "logout" not in name
        who = stranger if anyone else alice
        if name in CAREFUL or name == "mfa_authenticate":
            continue
        known = list(faces(name, lab, left, waits))
        for address in profiles.drawn(f"faces of {name}", known, quick=1, more=1):
            who.visit(name, address)
    with_a_second_factor(user)
    for name in some_of(CAREFUL):
        careful.visit(name, url(name, lab))
    stranger.log_in()
    stranger.visit("mfa_authenticate", reverse("mfa_authenticate"))
    assert stranger.seen + alice.seen + careful.seen > 40
    wrong = [one for walk in (stranger, alice, careful) for one in walk.over()]
    assert not wrong, "\n".join(wrong)


def with_a_second_factor(user: User) -> None:
    TOTP.activate(user, generate_totp_secret())
    RecoveryCodes.activate(user)
