"""The API's page and a person's token."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_http_methods
from drf_spectacular.generators import SchemaGenerator
from rest_framework.authtoken.models import Token


@require_GET
def api_docs(request: HttpRequest) -> HttpResponse:
    """Every operation of the schema, rendered by the server: no script, no foreign style."""
    schema = SchemaGenerator().get_schema(request=None, public=True)
    operations = [
        {"method": method.upper(), "path": path, **operation}
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    groups: dict[str, list[dict[str, object]]] = {}
    for operation in operations:
        groups.setdefault(operation["tags"][0], []).append(operation)
    return render(request, "team/api_docs.html", {"groups": groups, "info": schema["info"]})


@require_http_methods(["GET", "POST"])
def api_token(request: HttpRequest) -> HttpResponse:
    """A new token replaces the old one and is shown this once."""
    fresh = ""
    if request.method == "POST":
        Token.objects.filter(user_id=request.user.pk).delete()
        fresh = Token.objects.create(user_id=request.user.pk).key
    have = Token.objects.filter(user_id=request.user.pk).first()
    return render(request, "team/api_token.html", {"fresh": fresh, "token": have})
