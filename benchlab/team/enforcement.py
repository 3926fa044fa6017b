# SPDX-License-Identifier: Apache-2.0
"""Enforcement of the permission table (permissions.py): before every page, and before every API action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.permissions import BasePermission

from benchlab.team import current_roles, permissions, services
from benchlab.team.levels import Level
from benchlab.team.models import Membership, teams_of
from benchlab.team.roles import Role, highest_role, only_team, require_role

# rest_framework.views itself imports this module, for its default permission
if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView


class SecondFactorMissing(PermissionDenied):
    """A team of the person's demands the second factor."""


def check_level(user: AbstractBaseUser | AnonymousUser, level: Level) -> None:
    """Let the request see the rows that its level is about, and no others. Raises PermissionDenied in words."""
    if level is Level.ANYONE:
        return
    if not user.is_authenticated:
        raise PermissionDenied("That needs an account.")
    if level is Level.SITE_ADMIN and not getattr(user, "is_superuser", False):
        raise PermissionDenied("That is for site admins.")
    if level is Level.SIGNED_IN:
        return
    if teams := current_roles.user_roles(user).locked_by:
        raise SecondFactorMissing(
            f"{', '.join(teams)}: every member needs a second factor; set yours up on your account's page."
        )
    if level.role is None:
        if highest_role(user) is not Role.OWNER or only_team(user):
            raise PermissionDenied("That is for site admins; this token is limited.")
        return
    if level.role not in highest_role(user).and_below:
        raise PermissionDenied(
            f"That needs the role {level.value}; this token is a {highest_role(user).value}'s."
        )
    require_role(user, level.role)
    # A user of no team sees empty pages that say what to do; one who lacks the role everywhere is told which.
    if level.role != Role.VIEWER and not teams_of(user).exists():
        if Membership.objects.filter(user_id=user.pk).exists():
            raise PermissionDenied(f"That needs the role {level.value} in a team of yours.")
        raise PermissionDenied("You belong to no team yet; ask an admin to add you to one.")


class PermissionMiddleware(MiddlewareMixin):
    """Check each page. It must come after LoginRequiredMiddleware, which sends strangers to the login page."""

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        return page_refusal(request)


def page_refusal(request: HttpRequest) -> HttpResponseBase | None:
    """Refusal of the page; None when it may go on. Raises PermissionDenied."""
    match = request.resolver_match
    assert match is not None
    if hasattr(match.func, "cls"):
        # REST framework's; the caller is known later, by the token. One that asks others is asked nobody.
        if _uses_table(match.func):
            return None
        raise PermissionDenied(f"{match.view_name!r} does not ask the permission table.")
    rule = permissions.PAGES.get(match.url_name or "")
    level = permissions.page_level(match.url_name or "", request.method or "")
    if rule is not None and level is None:
        return HttpResponseNotAllowed(
            [*(["GET"] if rule.see else []), *(["POST"] if rule.do else [])]
        )
    if level is None:
        raise PermissionDenied(f"{match.view_name!r} is not in the permission table.")
    services.prefer_chosen_team(request)
    try:
        check_level(request.user, level)
    except SecondFactorMissing:
        return redirect("mfa_index")
    return None


def _uses_table(view: Any) -> bool:
    """True if the view's permission class is this one, whatever the address was registered with."""
    classes = getattr(view, "initkwargs", {}).get("permission_classes", view.cls.permission_classes)
    return list(classes) == [TablePermission]


class TablePermission(BasePermission):
    """The API's only permission class."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        noun = getattr(view, "queryset", None)
        if noun is None:
            return _has_page_permission(request)
        action = getattr(view, "action", None)
        if action in (None, "metadata"):
            # An unknown method is reported as such.
            return bool(request.user.is_authenticated)
        # a second view of one model
        noun_name = getattr(view, "noun", noun.model._meta.model_name)
        level = permissions.api_level(noun_name, action)
        if level is None:
            raise PermissionDenied("That action is not in the permission table.")
        if not request.user.is_authenticated:
            return False
        check_level(request.user, level)
        if request.auth is None and hasattr(request._request, "session"):
            # A page's script: new things belong where the page's do.
            services.prefer_chosen_team(request._request)
        return True


def _has_page_permission(request: Request) -> bool:
    """True if the user may use a view that belongs to no noun; the page rule of its URL name decides.

    Raises PermissionDenied if there is no such rule.
    """
    match = request._request.resolver_match
    name = (match.url_name or "") if match else ""
    rule = permissions.PAGES.get(name)
    if rule is None:
        raise PermissionDenied(f"{name!r} is not in the permission table.")
    level = permissions.page_level(name, request.method or "")
    if level is not Level.ANYONE and not request.user.is_authenticated:
        return False
    if level is None:
        raise MethodNotAllowed(request.method or "")
    check_level(request.user, level)
    return True
