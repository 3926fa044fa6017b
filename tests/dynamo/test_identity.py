"""A dynamo's identity: accepted by a person, claimed by one dynamo at a time; few connections and hosts before that."""

from __future__ import annotations

import contextlib
import socket
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.dynamo.messages import ManagerInfo
from agents.dynamo.wire import DynamoError
from benchlab.dynamo import listening, reported_hosts
from benchlab.dynamo.models import DynamoLogin
from benchlab.dynamo.reported_hosts import Claim, Claims
from benchlab.hosts.models import Host

pytestmark = pytest.mark.django_db


def test_only_the_last_login_is_accepted(team, user):
    host = Host.objects.create(team=team, name="win", access="dynamo", address="192.0.2.1")
    DynamoLogin.objects.create(host=host, name="win", port=2)
    with pytest.raises(reported_hosts.Refused, match="no dynamo with id 1 logged in last as win"):
        reported_hosts.accept_dynamo(host, user, 1, False)
    assert not reported_hosts.is_accepted(host)
    reported_hosts.accept_dynamo(host, user, 2, False)
    assert reported_hosts.is_accepted(host)


def test_a_claim_waits_for_the_dynamo_that_was_reset():
    claim, now = Claim("192.0.2.1", "WIN-7", "192.0.2.1"), [0.0]
    claims = Claims(lambda: now[0])
    assert claims.acquire_claim(claim, 1)
    assert not claims.acquire_claim(claim, 2)
    assert claims.acquire_claim(claim._replace(address="10.0.0.2"), 2)
    claims.release_claim(claim, 15.0)
    assert not claims.acquire_claim(claim, 2)
    assert claims.acquire_claim(claim, 1) is reported_hosts.Entry.AGAIN
    claims.release_claim(claim, 15.0)
    now[0] = 16.0
    assert claims.acquire_claim(claim, 2) is reported_hosts.Entry.NEW
    claims.release_claim(claim)
    assert claims.acquire_claim(claim, 2) is reported_hosts.Entry.NEW


def test_the_oldest_connection_of_the_busiest_address_makes_room():
    pairs = [socket.socketpair() for _ in range(4)]
    waiting = listening.WaitingConnections(per_address=2, most=3)
    for (near, _), address in zip(pairs, ("a", "a", "b", "c"), strict=True):
        waiting.add_connection(near, address)
    ended = []
    for near, far in pairs:
        far.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            ended.append(far.recv(1))
        near.close()
        far.close()
    assert ended == [b""]


def logged_in(team: Any, name: str, peer: str = "192.0.2.1") -> Host:
    info = ManagerInfo(888840, "1.1.0", name, peer, 4000, 2, 1e9)
    return reported_hosts.register_dynamo(team, info, peer, ())


def test_hosts_that_nobody_accepted_are_few_and_forgotten(team, user):
    """40 log-in names made 40 hosts for good."""
    accepted = logged_in(team, "ours")
    reported_hosts.accept_dynamo(accepted, user, 4000, False)
    for number in range(8):
        logged_in(team, f"pc-{number}")
    with pytest.raises(
        DynamoError, match=r"8 hosts at 192\.0\.2\.1 and 8 in all wait for an owner"
    ):
        logged_in(team, "pc-8")
    assert logged_in(team, "pc-3").name == "pc-3"
    assert logged_in(team, "elsewhere", "192.0.2.2")
    Host.objects.filter(team=team).update(seen_at=timezone.now() - timedelta(days=2))
    logged_in(team, "pc-8")
    assert {host.name for host in Host.objects.filter(access="dynamo")} == {"ours", "pc-8"}


def test_a_dynamo_with_the_id_of_an_earlier_one_is_not_accepted(team, user):
    """Windows hands out ports in order: after a restart another dynamo may have the same one."""
    host = logged_in(team, "WIN-7")
    reported_hosts.accept_dynamo(host, user, 4000, False)
    info = ManagerInfo(888840, "1.1.0", "WIN-7", "192.0.2.1", 4000, 2, 1e9)
    reported_hosts.register_dynamo(team, info, "192.0.2.1", (), reported_hosts.Entry.AGAIN)
    assert reported_hosts.is_accepted(host)
    reported_hosts.register_dynamo(team, info, "192.0.2.1", (), reported_hosts.Entry.NEW)
    assert not reported_hosts.is_accepted(host)
