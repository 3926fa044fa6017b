"""What is recorded by itself: every page and API call that changes something, logins, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models import Model
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from benchlab.audit.chain import record

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")
REFUSED = (401, 403, 404, 409)
# Which model `pk` is one of, by the first word of the URL's name; the API's nouns name their own.
MODELS = {
    "host": "hosts.Host",
    "credential": "hosts.Credential",
    "device": "hosts.Device",
    "topology": "topologies.Topology",
    "workload": "campaigns.Workload",
    "campaign": "campaigns.Campaign",
    "run": "campaigns.Run",
    "layout": "runs.Layout",
    "artifact": "runs.Artifact",
    "attempt": "runs.Attempt",
    "dynamo": "dynamo.Binary",
    "reported": "dynamo.Reported",
    "comment": "sharing.Comment",
    "view": "sharing.SavedView",
    "share": "sharing.Share",
}
OWN_KEYS = {"device_pk": "hosts.Device", "layout_pk": "runs.Layout"}
# What is no deed: asking what something would do, and the form that only estimates.
SILENT = {"login", "logout"}  # told by Django's signals, also with the name that was tried


class Recorded(MiddlewareMixin):
    """It must come after the authentication middleware."""

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        """What the deed is about must be read before it is done: it may be gone afterwards."""
        if request.method not in SAFE:
            request.audited = _subject(request, view, kwargs)  # type: ignore[attr-defined]

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        match = request.resolver_match
        if request.method in SAFE or match is None or match.url_name in SILENT:
            return response
        if response.has_header("Idempotency-Replayed"):
            return response  # nothing was done: it was told before
        status = response.status_code
        if status < 400 or status in REFUSED:
            _record(request, response)
        return response


def _record(request: HttpRequest, response: HttpResponseBase) -> None:
    match, user = request.resolver_match, request.user
    assert match is not None
    team, subject = getattr(request, "audited", (None, ""))
    if not subject:
        subject = response.get("Location", "")
    view = getattr(match.func, "cls", None)
    token = getattr(request, "auth", None)  # REST framework leaves the token there
    done = response.status_code < 400
    record(
        _action(match, view, request.method or ""),
        actor_id=user.pk,
        actor=user.get_username(),
        via=f"token {token}" if token else "api" if view else "page",
        address=request.META.get("REMOTE_ADDR", ""),
        team_id=team,
        subject=subject,
        outcome="done" if done else "refused",
        details={"path": request.path, "status": response.status_code},
    )


def _action(match: Any, view: Any, method: str) -> str:
    """ "host.mark_spare" of the API, the URL's name of a page."""
    actions = getattr(match.func, "actions", None)
    if view is None or not actions:
        return str(match.url_name or match.route)
    noun = getattr(view, "noun", view.queryset.model._meta.model_name)
    return f"{noun}.{actions.get(method.lower(), method.lower())}"


def _subject(request: HttpRequest, view: Any, kwargs: Any) -> tuple[int | None, str]:
    """The team's id, and the row in words. Whether the caller may see it is not asked here."""
    cls = getattr(view, "cls", None)
    if cls is not None and getattr(cls, "queryset", None) is not None:
        models = {"pk": cls.queryset.model}
    else:
        name = str(getattr(request.resolver_match, "url_name", "") or "").partition("-")[0]
        models = {"pk": apps.get_model(MODELS[name])} if name in MODELS else {}
        if "device_pk" in kwargs:
            models["pk"] = apps.get_model("hosts.Host")
    models |= {key: apps.get_model(model) for key, model in OWN_KEYS.items()}
    found = [row for key, model in models.items() if (row := _row(model, kwargs.get(key)))]
    if not found:
        return None, ""
    words = ", ".join(f"{row._meta.verbose_name} {row.pk} ({row})" for row in found)
    return _team(found[0]), words


def _row(model: type[Model], pk: Any) -> Model | None:
    if pk is None or not str(pk).isdigit() or len(str(pk)) > 18:
        return None
    return model._default_manager.filter(pk=pk).first()


def _team(row: Any) -> int | None:
    """Along its TEAM_PATH: "run__campaign__team"."""
    if row._meta.label == "team.Team":
        return int(row.pk)
    for step in getattr(row, "TEAM_PATH", "team").split("__"):
        row = getattr(row, step, None)
    return row.pk if row is not None else None


@receiver(user_logged_in)
def _logged_in(sender: Any, request: HttpRequest, user: AbstractBaseUser, **rest: Any) -> None:
    _person("login", request, user.pk, user.get_username())


@receiver(user_logged_out)
def _logged_out(
    sender: Any, request: HttpRequest, user: AbstractBaseUser | None, **rest: Any
) -> None:
    if user is not None:
        _person("logout", request, user.pk, user.get_username())


@receiver(user_login_failed)
def _not_logged_in(
    sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **rest: Any
) -> None:
    tried = str(credentials.get("username") or credentials.get("email") or "")
    _person("login", request, None, tried, outcome="refused")


def _person(
    action: str, request: HttpRequest | None, pk: int | None, name: str, outcome: str = "done"
) -> None:
    address = request.META.get("REMOTE_ADDR", "") if request is not None else ""
    record(action, actor_id=pk, actor=name, via="page", address=address, outcome=outcome)
