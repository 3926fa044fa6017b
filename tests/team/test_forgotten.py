"""A view that somebody adds and forgets in the permission table: the walk finds it, and nobody is let in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import include, path
from rest_framework.permissions import AllowAny
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView

from tests.team.test_table import unlisted


class Forgotten(APIView):
    """Of REST framework's, without rows."""

    def get(self, request: Any) -> Response:
        return Response({"secret": True})


class Open(Forgotten):
    permission_classes = (AllowAny,)


WRONG = [
    path("api/forgotten/", Forgotten.as_view()),
    path("api/named/", Forgotten.as_view(), name="forgotten"),
    path("api/open/", Open.as_view(), name="schema"),
    path("api/opened/", Forgotten.as_view(permission_classes=[]), name="schema"),
    path("plain/", lambda request: HttpResponse("secret")),
]
RIGHT = path("api/right/", Forgotten.as_view(), name="schema")
urlpatterns = [*WRONG, RIGHT, path("", include("benchlab.urls"))]


def test_the_walk_finds_it():
    assert unlisted([*WRONG, RIGHT]) == [str(one.pattern) for one in WRONG]


def test_it_is_refused_to_everybody(settings, user):
    settings.ROOT_URLCONF = __name__
    api, web = APIClient(), Client()
    for person in (user, User.objects.create_superuser("root")):
        api.force_authenticate(person)
        web.force_login(person)
        for one in WRONG:
            assert web.get(f"/{one.pattern}").status_code == 403, one
            assert api.get(f"/{one.pattern}").status_code in (403, 302), one  # to log in


def test_one_that_is_in_the_table_is_asked_as_it_says(settings, user):
    settings.ROOT_URLCONF = __name__
    api = APIClient()
    assert api.get("/api/right/").status_code == 401
    api.force_authenticate(user)
    assert api.get("/api/right/").status_code == 200
    assert api.post("/api/right/").status_code == 405
