"""The API's page and a person's token."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_http_methods
from rest_framework.authtoken.models import Token

from benchlab.team import docs


@require_GET
def api_docs(request: HttpRequest) -> HttpResponse:
    """Every operation of the schema, rendered by the server: no script, no foreign style."""
    return render(request, "team/api_docs.html", {"groups": docs.groups()})


@require_http_methods(["GET", "POST"])
def api_token(request: HttpRequest) -> HttpResponse:
    """A new token replaces the old one and is shown this once."""
    assert request.user.pk is not None  # nobody comes here without a name
    mine = Token.objects.filter(user_id=request.user.pk)
    fresh = ""
    if request.method == "POST":
        mine.delete()
        fresh = Token.objects.create(user_id=request.user.pk).key
    context = {"fresh": fresh, "token": mine.first()}
    answer = render(request, "team/api_token.html", context)
    answer["Cache-Control"] = "no-store"
    return answer
