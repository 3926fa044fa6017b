"""Addresses that a host may have: never at a cloud's metadata, and what was checked is what is connected to."""

from __future__ import annotations

import asyncio
import socket

import pytest

from agents.contracts import AgentError, Reason, Secret
from agents.ssh import reach, shell
from benchlab import env
from benchlab.hosts import registration, ssh_access
from benchlab.team.models import Membership
from benchlab.team.roles import Role


@pytest.mark.parametrize("address", [
    "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "100.100.100.200", "0.0.0.0", "::",
    "255.255.255.255", "224.0.0.1", "ff02::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
])  # fmt: skip
def test_never(address):
    assert reach.forbidden(address, reach.NEVER)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "10.0.0.5", "192.168.1.9", "fd12::1", "2001:db8::1", "1.1.1.1"]
)
def test_where_hosts_are(address):
    assert not reach.forbidden(address, reach.NEVER)


@pytest.mark.parametrize("written", [
    "169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.43518", "::ffff:169.254.169.254", "0xa9.0xfe.0xa9.0xfe",
])  # fmt: skip
def test_however_it_is_written_nothing_is_sent_there(written, monkeypatch):
    """The resolver knows more ways to write an address than any form; nothing is connected to before the check."""
    tried = []
    monkeypatch.setattr(reach, "_connect_socket", lambda made, where: tried.append(where))
    with pytest.raises((AgentError, OSError)) as raised:
        asyncio.run(reach.connected(written, 80, reach.NEVER))
    assert tried == []
    if isinstance(raised.value, AgentError):
        assert raised.value.reason is Reason.FORBIDDEN_ADDRESS


def test_a_name_that_changes_its_mind_gains_nothing(monkeypatch):
    """Resolved once: the second answer, which a check would not have seen, is never asked for."""
    with socket.create_server(("127.0.0.1", 0)) as good:
        port = good.getsockname()[1]
        answers = [["127.0.0.1"], ["169.254.169.254"]]
        real = socket.getaddrinfo

        def rebinding(host, *rest, **more):
            return real(answers.pop(0)[0] if host == "rebind.example" else host, *rest, **more)

        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        made = asyncio.run(reach.connected("rebind.example", port, reach.NEVER))
        with made:
            assert made.getpeername() == ("127.0.0.1", port)
        assert answers == [["169.254.169.254"]]


def test_one_bad_address_of_several_is_enough(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as good:
        port = good.getsockname()[1]
        both = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port))
            for one in ("127.0.0.1", "169.254.169.254")
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *rest, **more: both)
        good.settimeout(0.3)
        with pytest.raises(AgentError) as raised:
            shell.offered_host_key("two.example", port, 5)
        assert raised.value.reason is Reason.FORBIDDEN_ADDRESS
        with pytest.raises(TimeoutError):
            good.accept()


def test_a_real_socket_in_a_forbidden_net_hears_nothing(team, settings):
    """Both ways out: asking for the key, and logging in."""
    settings.BENCHLAB_FORBID_NETS = ("127.0.0.0/8",)
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = registration.add_host(
            team, "meta", "127.0.0.1", registration.make_credential(team, "k"), port=server.getsockname()[1]
        )  # fmt: skip
        with pytest.raises(AgentError) as raised:
            ssh_access.offer_key(host)
        assert raised.value.reason is Reason.FORBIDDEN_ADDRESS
        host.refresh_from_db()
        assert (
            host.trouble == Reason.FORBIDDEN_ADDRESS and "BENCHLAB_FORBID_NETS" in host.trouble_text
        )
        host.host_key = " ".join(host.credential.public_key.split()[:2])
        with pytest.raises(AgentError) as raised:
            ssh_access.connect_to_host(host)
        assert raised.value.reason is Reason.FORBIDDEN_ADDRESS
        server.settimeout(0.3)
        with pytest.raises(TimeoutError):
            server.accept()


def test_the_default_is_safe_without_settings():
    address = shell.Address("169.254.169.254", 22, "root", Secret(""), "")
    assert reach.forbidden(address.host, address.forbidden)


@pytest.mark.parametrize(("given", "expected"), [
    ("", reach.NEVER), ("none", ()), ("10.0.0.0/8, fe80::/10", ("10.0.0.0/8", "fe80::/10")),
])  # fmt: skip
def test_the_environment_decides(monkeypatch, given, expected):
    monkeypatch.setenv("BENCHLAB_FORBID_NETS", given)
    assert env.networks("BENCHLAB_FORBID_NETS", reach.NEVER) == expected


def test_a_wrong_environment_is_said(monkeypatch):
    from django.core.exceptions import ImproperlyConfigured

    monkeypatch.setenv("BENCHLAB_FORBID_NETS", "10.0.0.1/8")
    with pytest.raises(ImproperlyConfigured, match="BENCHLAB_FORBID_NETS"):
        env.networks("BENCHLAB_FORBID_NETS", ())


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_only_owners_may_say_where_to_knock(team, user, web, role):
    """A connection's answer (refused, timed out) would map a network for whoever may choose the address."""
    Membership.objects.filter(user=user).update(role=role)
    given = {"name": "x", "address": "10.0.0.1", "port": 22, "user": "root"}
    assert web.post("/hosts/add/", given).status_code == 403
    assert not team.hosts.exists()
