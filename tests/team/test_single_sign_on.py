"""OpenID Connect against a provider of our own, over HTTP: connecting an account, and a new one by invitation."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchlab.team import invitations
from benchlab.team.models import Membership
from benchlab.team.roles import Role

KEY = "a-key-of-this-test-only-with-32-bytes"


class Provider(ThreadingHTTPServer):
    """It lets `person` in, whoever asks, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.person = {"sub": "42", "preferred_username": "carol", "email": "carol@example.org"}
        self.asked: list[dict] = []

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/realm"


class Answers(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        issuer = self.server.issuer
        known = {
            "/realm/.well-known/openid-configuration": {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/auth",
                "token_endpoint": f"{issuer}/token",
                "userinfo_endpoint": f"{issuer}/me",
                "jwks_uri": f"{issuer}/keys",
            },
            "/realm/me": self.server.person,
        }
        self._say(known[self.path])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append({k: v[0] for k, v in parse_qs(body).items()})
        claims = {"iss": self.server.issuer, "aud": "bench", "exp": time.time() + 60, "iat": time.time()}  # fmt: skip
        token = jwt.encode({**claims, **self.server.person}, KEY, algorithm="HS256")
        self._say({"access_token": "t", "token_type": "Bearer", "id_token": token})

    def _say(self, body: dict) -> None:
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test is quiet."""


@pytest.fixture
def provider(settings):
    server = Provider()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    app = {
        "provider_id": "oidc", "name": "Lab SSO", "client_id": "bench", "secret": "s3cret",
        "settings": {"server_url": server.issuer, "oauth_pkce_enabled": True},
    }  # fmt: skip
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    yield server
    server.shutdown()
    server.server_close()


def through(web: Client, process: str = "login"):
    """Press the button, be let in by the provider, come back."""
    there = web.post(f"/account/oidc/login/?process={process}")
    asked = parse_qs(urlsplit(there["Location"]).query)
    assert asked["code_challenge_method"] == ["S256"] and "openid" in asked["scope"][0]
    return web.get("/account/oidc/login/callback/", {"code": "c", "state": asked["state"][0]})


def signed_in(web: Client) -> bool:
    return web.get("/account/").status_code == 200


def test_a_stranger_gets_no_account(db, provider):
    web = Client()
    assert b"Log in with Lab SSO" in web.get("/login/").content
    answer = through(web)
    assert b"By invitation only" in (answer.content or web.get(answer["Location"]).content)
    assert not signed_in(web) and not User.objects.exists()


def test_a_stranger_with_an_invitation_gets_one(team, user, provider):
    web = Client()
    token = invitations.invite(team, Role.OPERATOR, user)[1]
    assert b"Log in with Lab SSO" in web.get(f"/join/{token}/").content
    assert token not in str(dict(web.session))  # whoever reads the sessions' table has no link
    through(web)
    assert signed_in(web)
    member = Membership.objects.get(user__username="carol")
    assert (member.team, member.role) == (team, Role.OPERATOR)
    assert not member.user.has_usable_password()
    assert not invitations.open_invitations().exists()
    assert provider.asked[0]["code_verifier"] and "s3cret" in str(provider.asked[0])
    later = Client()
    through(later)  # from now on it is a log-in
    assert signed_in(later) and User.objects.filter(username="carol").count() == 1


def test_a_person_connects_the_account_that_is_there(user, provider):
    web = Client()
    web.post("/login/", {"login": "alice", "password": "alice-password"})
    assert b"Connect Lab SSO" in web.get("/account/single-sign-on/").content
    through(web, "connect")
    assert b"since" in web.get("/account/single-sign-on/").content
    later = Client()
    through(later)
    assert later.get("/account/").context["user"].username == "alice"


def test_an_address_that_is_told_opens_nobodys_account(user, provider):
    """Whoever controls a name at the provider must not become whoever has that address here."""
    User.objects.filter(pk=user.pk).update(email="carol@example.org")
    web = Client()
    through(web)
    assert not signed_in(web)


def test_a_deactivated_person_is_not_let_in(team, user, provider):
    web = Client()
    web.get(f"/join/{invitations.invite(team, Role.VIEWER, user)[1]}/")
    through(web)
    User.objects.filter(username="carol").update(is_active=False)
    later = Client()
    through(later)
    assert not signed_in(later) and not signed_in(web)


def test_another_sessions_answer_is_refused(user, provider):
    web, thief = Client(), Client()
    there = web.post("/account/oidc/login/?process=login")
    state = parse_qs(urlsplit(there["Location"]).query)["state"][0]
    thief.get("/account/oidc/login/callback/", {"code": "c", "state": state})
    assert not signed_in(thief) and not provider.asked
