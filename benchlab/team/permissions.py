# SPDX-License-Identifier: Apache-2.0
"""Permission table, the only one. A page or an API action that is not in it is refused to everybody.

Levels are roles in the team that owns the row in question; a row of a team where the caller has less is as unknown to
them as one that nobody has (404), and who has that role nowhere is told so (403). The reference library's rows count
as seen by every signed-in user, and are changed by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchlab.team.levels import ANYONE, OPERATOR, OWNER, SIGNED_IN, SITE_ADMIN, VIEWER, Level, Rule
from benchlab.team.permissions_api import API

# By the URL's name.
PAGES: Mapping[str, Rule] = {
    "healthz": Rule(ANYONE),
    "readyz": Rule(ANYONE),
    # which asks for a token itself (benchlab/metrics/view.py)
    "metrics": Rule(ANYONE),
    "login": Rule(ANYONE, ANYONE),
    "account_login": Rule(ANYONE, ANYONE),
    # also from the middle of a log-in
    "logout": Rule(ANYONE, ANYONE),
    "account_logout": Rule(ANYONE, ANYONE),
    # A person's own account; a forgotten password; the second half of a log-in, which has no name yet.
    "account": Rule(SIGNED_IN),
    "account-email": Rule(SIGNED_IN, SIGNED_IN),
    "account_inactive": Rule(ANYONE),
    "account_reauthenticate": Rule(SIGNED_IN, SIGNED_IN),
    "account_change_password": Rule(SIGNED_IN, SIGNED_IN),
    "account_set_password": Rule(SIGNED_IN, SIGNED_IN),
    "account_reset_password": Rule(ANYONE, ANYONE),
    "account_reset_password_done": Rule(ANYONE),
    "account_reset_password_from_key": Rule(ANYONE, ANYONE),
    "account_reset_password_from_key_done": Rule(ANYONE),
    "usersessions_list": Rule(SIGNED_IN, SIGNED_IN),
    "mfa_index": Rule(SIGNED_IN),
    "mfa_authenticate": Rule(ANYONE, ANYONE),
    "mfa_reauthenticate": Rule(SIGNED_IN, SIGNED_IN),
    "mfa_activate_totp": Rule(SIGNED_IN, SIGNED_IN),
    "mfa_deactivate_totp": Rule(SIGNED_IN, SIGNED_IN),
    "mfa_view_recovery_codes": Rule(SIGNED_IN),
    "mfa_generate_recovery_codes": Rule(SIGNED_IN, SIGNED_IN),
    "socialaccount_connections": Rule(SIGNED_IN, SIGNED_IN),
    "socialaccount_signup": Rule(ANYONE, ANYONE),
    "socialaccount_login_cancelled": Rule(ANYONE),
    "socialaccount_login_error": Rule(ANYONE),
    "openid_connect_login": Rule(ANYONE, ANYONE),
    "openid_connect_callback": Rule(ANYONE),
    # Teams. Who has an invitation's link may join.
    "join": Rule(ANYONE, ANYONE),
    "team-list": Rule(SIGNED_IN),
    "team-choose": Rule(do=SIGNED_IN),
    "team-detail": Rule(VIEWER),
    "team-change": Rule(do=OWNER),
    "team-leave": Rule(do=VIEWER),
    "team-invite": Rule(do=OWNER),
    "team-invitation-revoke": Rule(do=OWNER),
    "team-member-role": Rule(do=OWNER),
    "team-member-remove": Rule(OWNER, OWNER),
    "site-users": Rule(SITE_ADMIN),
    "site-user-active": Rule(do=SITE_ADMIN),
    "site-user-reset": Rule(do=SITE_ADMIN),
    "site-user-factor": Rule(do=SITE_ADMIN),
    "site-teams": Rule(SITE_ADMIN, SITE_ADMIN),
    "site-team-owner": Rule(do=SITE_ADMIN),
    "home": Rule(VIEWER),
    "look": Rule(VIEWER),
    "look-figure": Rule(VIEWER),
    # Only an owner may reach a new host, trust its key and say what may be destroyed there.
    "host-list": Rule(VIEWER),
    "host-add": Rule(OWNER, OWNER),
    "credential-list": Rule(OWNER),
    "credential-delete": Rule(do=OWNER),
    "host-detail": Rule(VIEWER),
    "host-change": Rule(OWNER, OWNER),
    "host-delete": Rule(OWNER, OWNER),
    "host-read": Rule(do=OPERATOR),
    "host-task": Rule(VIEWER),
    "host-orphan": Rule(OPERATOR, OPERATOR),
    "host-install-confirm": Rule(OWNER, OWNER),
    "host-install": Rule(VIEWER),
    "host-history": Rule(VIEWER),
    "host-snapshot": Rule(VIEWER),
    "host-key": Rule(OWNER, OWNER),
    "host-key-ask": Rule(do=OWNER),
    "host-key-keep": Rule(do=OWNER),
    "device-detail": Rule(VIEWER, OWNER),
    "device-keep": Rule(do=OWNER),
    "device-rate": Rule(do=OPERATOR),
    "topology-list": Rule(VIEWER),
    "topology-new": Rule(OPERATOR, OPERATOR),
    "topology-detail": Rule(VIEWER),
    "topology-edit": Rule(OPERATOR, OPERATOR),
    "topology-plan": Rule(VIEWER, OPERATOR),
    "workload-list": Rule(VIEWER),
    "workload-new": Rule(OPERATOR, OPERATOR),
    "workload-try": Rule(do=OPERATOR),
    "workload-detail": Rule(VIEWER),
    # dynamo's program runs as root on the team's hosts, and a whole disk is given away for good.
    "dynamo": Rule(VIEWER, OWNER),
    "dynamo-program-delete": Rule(OWNER, OWNER),
    "dynamo-check": Rule(do=OPERATOR),
    "icf-new": Rule(OPERATOR, OPERATOR),
    "workload-icf": Rule(VIEWER),
    "host-accept-dynamo": Rule(do=OWNER),
    "reported-spare": Rule(do=OWNER),
    "reported-topology": Rule(do=OPERATOR),
    "attempt-iometer-csv": Rule(VIEWER),
    "campaign-iometer-csv": Rule(VIEWER),
    "attempt-latency-figure": Rule(VIEWER),
    "attempt-now": Rule(VIEWER),
    "campaign-preset": Rule(do=OPERATOR),
    "campaign-next-step": Rule(do=OPERATOR),
    "campaign-list": Rule(VIEWER),
    "campaign-new": Rule(OPERATOR, OPERATOR),
    "compare-layouts": Rule(OPERATOR, OPERATOR),
    "campaign-again": Rule(OPERATOR),
    "campaign-detail": Rule(VIEWER),
    "campaign-events": Rule(VIEWER),
    "campaign-plan": Rule(do=OPERATOR),
    "campaign-start": Rule(do=OPERATOR),
    "campaign-pause": Rule(do=OPERATOR),
    "campaign-resume": Rule(do=OPERATOR),
    "campaign-cancel": Rule(OPERATOR, OPERATOR),
    "campaign-retry": Rule(do=OPERATOR),
    "campaign-add-repeats": Rule(do=OPERATOR),
    "run-retry": Rule(do=OPERATOR),
    "layout-person-done": Rule(do=OPERATOR),
    "layout-teardown": Rule(do=OPERATOR),
    # Leftovers stay on the host: whoever may give its disks away may release it.
    "layout-release": Rule(OWNER, OWNER),
    # Lifecycle of a noun (benchlab/lifecycle): whoever may make one may rename and archive it; deleting takes results
    # away from everybody.
    "deleted-list": Rule(VIEWER),
    **{
        f"{kind}-{action}": rule
        for kind in ("campaign", "topology", "workload")
        for action, rule in {
            "rename": Rule(OPERATOR, OPERATOR),
            "archive": Rule(do=OPERATOR),
            "restore": Rule(do=OPERATOR),
            "delete": Rule(OWNER, OWNER),
            "bring-back": Rule(do=OWNER),
        }.items()
    },
    "run-list": Rule(VIEWER),
    "run-words": Rule(VIEWER),
    "run-compare": Rule(VIEWER),
    "search": Rule(VIEWER),
    "run-detail": Rule(VIEWER),
    "run-history": Rule(VIEWER),
    "run-history-figure": Rule(VIEWER),
    "campaign-figure": Rule(VIEWER),
    "campaign-csv": Rule(VIEWER),
    "attempt-device-figure": Rule(VIEWER),
    "attempt-disk-figure": Rule(VIEWER),
    "attempt-cpu-figure": Rule(VIEWER),
    "attempt-cache-figure": Rule(VIEWER),
    "attempt-histogram-figure": Rule(VIEWER),
    "attempt-histogram-csv": Rule(VIEWER),
    "attempt-live-figure": Rule(VIEWER),
    "attempt-strips": Rule(VIEWER),
    "attempt-series-csv": Rule(VIEWER),
    "artifact-download": Rule(VIEWER),
    "import-new": Rule(OPERATOR, OPERATOR),
    "import-detail": Rule(OPERATOR, OPERATOR),
    "import-discard": Rule(do=OPERATOR),
    "import-file": Rule(OPERATOR),
    # Guests only where the lab lets them (benchlab/imports/views_diagnose.py).
    "diagnose": Rule(ANYONE, ANYONE),
    "api-diagnose": Rule(do=ANYONE),
    "library": Rule(VIEWER),
    "source-download": Rule(VIEWER),
    "artifact-lines": Rule(VIEWER),
    "run-side": Rule(VIEWER),
    "run-side-figure": Rule(VIEWER),
    "explore": Rule(VIEWER),
    "explore-figure": Rule(VIEWER),
    "explore-csv": Rule(VIEWER),
    "compare": Rule(VIEWER),
    "compare-figure": Rule(VIEWER),
    "compare-csv": Rule(VIEWER),
    # Who sees a row may say something about it; what the team keeps beside it is an operator's, and so is to let
    # guests in. Whose comment or view it is, the view asks.
    "talk-comment": Rule(do=VIEWER),
    "talk-tag": Rule(do=OPERATOR),
    "talk-untag": Rule(do=OPERATOR),
    "talk-note": Rule(do=OPERATOR),
    "talk-star": Rule(do=VIEWER),
    "finding-dismiss": Rule(do=OPERATOR),
    "finding-take-back": Rule(do=OPERATOR),
    "campaign-answer-dismiss": Rule(do=OPERATOR),
    "campaign-answer-take-back": Rule(do=OPERATOR),
    "comment-edit": Rule(VIEWER, VIEWER),
    "comment-delete": Rule(do=VIEWER),
    "view-list": Rule(VIEWER),
    "view-save": Rule(do=VIEWER),
    "view-delete": Rule(do=VIEWER),
    "share-list": Rule(VIEWER),
    "share-new": Rule(OPERATOR, OPERATOR),
    "share-revoke": Rule(do=OPERATOR),
    "activity": Rule(VIEWER),
    **{
        f"{kind}-report{name}": rule
        for kind in ("campaign", "view")
        for name, rule in {
            "": Rule(VIEWER),
            "-file": Rule(VIEWER),
            "-raw": Rule(VIEWER),
            "-text": Rule(do=OPERATOR),
            "-made": Rule(VIEWER, VIEWER),
        }.items()
    },
    "made-report": Rule(VIEWER),
    # Whoever has the link sees what it shares (benchlab/sharing/links.py) and nothing else.
    "shared": Rule(ANYONE),
    "shared-embed": Rule(ANYONE),
    "shared-figure": Rule(ANYONE),
    "shared-csv": Rule(ANYONE),
    "shared-devices": Rule(ANYONE),
    "shared-histogram": Rule(ANYONE),
    "shared-cpu": Rule(ANYONE),
    "shared-cache": Rule(ANYONE),
    "shared-series": Rule(ANYONE),
    "shared-artifact": Rule(ANYONE),
    "audit-log": Rule(OWNER),
    "audit-csv": Rule(OWNER),
    "api-root": Rule(SIGNED_IN),
    # which says that there is nothing
    "api-nowhere": Rule(SIGNED_IN, SIGNED_IN),
    "schema": Rule(SIGNED_IN),
    "api-docs": Rule(SIGNED_IN),
    "document": Rule(SIGNED_IN),
    "document-picture": Rule(SIGNED_IN),
    "api-token": Rule(SIGNED_IN, SIGNED_IN),
    "api-token-revoke": Rule(do=SIGNED_IN),
    "api-tokens-end": Rule(do=SIGNED_IN),
}


def page_level(name: str, method: str) -> Level | None:
    """Level that a page needs; None: not in the table, so nobody may."""
    rule = PAGES.get(name, Rule())
    return rule.see if method in ("GET", "HEAD", "OPTIONS") else rule.do


def api_level(noun: str, action: str | None) -> Level | None:
    """Level that an API action needs; None: not in the table, so nobody may."""
    return API.get(f"{noun}.{action}")


def permission_rows() -> Iterator[tuple[str, str, str]]:
    """Rows (what, "see", "do" or "API", level in words) for the docs. What has no row is refused to everybody."""
    for name, rule in PAGES.items():
        for method, level in (("see", rule.see), ("do", rule.do)):
            if level is not None:
                yield name, method, level.value
    for action, level in API.items():
        yield action, "API", level.value
