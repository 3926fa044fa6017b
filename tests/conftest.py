"""Fixtures that every Django test may use: two people in two teams, and clients for them."""

from __future__ import annotations

import shutil

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from benchlab.team.models import Membership, Team

# What proves disks blank asserts in helpers: say what was there instead. Before anything imports them.
pytest.register_assert_rewrite("tests.rig.blank", "tests.rig.bench", "tests.rig.lanes")


def pytest_configure() -> None:
    """People are made and log in in nearly every test; a slow hash would be most of the suite's time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Attempts to log in are counted there: one test's must not shut out the next.
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}


# How long an example takes says how busy the machine is, and nothing of the code.
hypothesis_settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("untimed")


@pytest.fixture
def team(db) -> Team:
    return Team.objects.create(name="Storage")


@pytest.fixture
def user(team) -> User:
    person = User.objects.create_user("alice", password="alice-password")
    Membership.objects.create(team=team, user=person)
    return person


@pytest.fixture
def other_user(db) -> User:
    """Somebody of another team: sees nothing of ours."""
    person = User.objects.create_user("bob", password="bob-password")
    Membership.objects.create(team=Team.objects.create(name="Others"), user=person)
    return person


@pytest.fixture
def web(user) -> Client:
    """A browser logged in as `user`."""
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def htmx(user) -> Client:
    client = Client(headers={"HX-Request": "true"})
    client.force_login(user)
    return client


@pytest.fixture
def other_web(other_user) -> Client:
    client = Client()
    client.force_login(other_user)
    return client


@pytest.fixture
def ssh_keygen() -> None:
    """For tests that compare with OpenSSH's own tool."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("OpenSSH's ssh-keygen is not installed")
