"""Limits of connecting, hosts that are left alone for a while, and names that nobody answers for."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.contracts import AgentError, Reason, Secret
from agents.ssh import dial, pool, reach, shell
from agents.ssh.keys import generate_key_pair
from tests.agents.sshd import sshd
from tests.silent_hosts import Silent, silent_hosts

OURS, THEIRS = 1, 2  # teams


def address_of(silent: Silent, number: int = 0) -> shell.Address:
    private, _ = generate_key_pair("test")
    port = silent.ports[number]
    return shell.Address("127.0.0.1", port, "root", Secret(private), silent.host_key, group=OURS)


def failure(address: shell.Address) -> str:
    with pytest.raises(AgentError, check=lambda error: error.reason is Reason.TIMED_OUT) as raised:
        shell.connect_shell(address)
    return str(raised.value)


@pytest.mark.parametrize(
    ("how", "limits", "missing"),
    [
        ("silent", {"BANNER_S": 0.3}, "sent no SSH banner within 0.3 s"),
        ("drip", {"BANNER_S": 0.3}, "sent no SSH banner within 0.3 s"),
        ("handshake", {"BANNER_S": 0.5, "EXCHANGE_S": 0.5}, "within 0.5 s"),
        ("login", {"BANNER_S": 0.5, "EXCHANGE_S": 0.5, "LOGIN_S": 0.5}, "within 0.5 s"),
    ],
)
def test_each_part_of_connecting_has_its_limit(how, limits, missing, monkeypatch):
    for name in ("BANNER_S", "EXCHANGE_S", "LOGIN_S"):
        monkeypatch.setattr(dial, name, limits.get(name, 60.0))
    with silent_hosts(1, how) as silent:
        begun = time.monotonic()
        assert missing in failure(address_of(silent))
        assert time.monotonic() - begun < 15  # as long as all of it might take before


@pytest.fixture
def impatient(monkeypatch) -> None:
    """Failures count at once, and for the whole test."""
    monkeypatch.setattr(dial, "BANNER_S", 0.3)
    monkeypatch.setattr(pool, "SLOW_S", 0.1)
    monkeypatch.setattr(pool, "FIRST_S", 1000.0)
    monkeypatch.setattr(pool, "MOST_S", 1000.0)


def test_a_host_that_did_not_answer_is_left_alone_for_a_while(impatient):
    with silent_hosts(2, "silent") as silent:
        address = address_of(silent)
        said = failure(address)
        assert "not tried again before" in said and "UTC" in said
        assert failure(address) == said
        assert silent.came == 1
        # A team-mate's host, and the same host with another team's key, are others.
        for other in (replace(address, port=silent.ports[1]), replace(address, group=THEIRS)):
            failure(other)
        assert silent.came == 3
        shell.try_again(address)
        failure(address)
        assert silent.came == 4


def test_what_fails_at_once_is_tried_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "SLOW_S", 30.0)
    with sshd(tmp_path) as good:
        private, _ = generate_key_pair("not in authorized_keys")
        stranger = replace(good, private_key=Secret(private))
        for _ in range(2):
            with pytest.raises(AgentError) as raised:
                shell.connect_shell(stranger)
            assert raised.value.reason is Reason.AUTHENTICATION_FAILED
            assert "not tried again" not in str(raised.value)


def test_pauses_grow_to_a_minute_and_end_with_success():
    known, error = pool.Breaker(), AgentError("no answer", Reason.TIMED_OUT)
    address = shell.Address("lab", 22, "root", Secret("key"), "key")
    pauses, now = [], 0.0
    for _ in range(6):
        known._count_failure(address, error, now)
        pauses.append(known.failures[address].pause_s)
        now = known.failures[address].until + 1.0
    assert pauses == [5, 10, 20, 40, 60, 60]

    async def answers(address: shell.Address) -> str:
        return "connected"

    assert asyncio.run(known.tried(address, answers)) == "connected"
    assert not known.failures
    # A failure of long ago does not count.
    for then in (0.0, 1000.0):
        known._count_failure(address, error, then)
        assert known.failures[address].pause_s == 5


@pytest.fixture
def dead_names(monkeypatch) -> Iterator[list[str]]:
    """Names below .dead are looked up until the test is over; those that are under way."""
    real, over, asked = socket.getaddrinfo, threading.Event(), list[str]()

    def look_up(host: str, *rest: object, flags: int = 0, **more: object) -> object:
        if host.endswith(".dead") and not flags & socket.AI_NUMERICHOST:
            asked.append(host)
            over.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "nobody answered")
        return real(host, *rest, flags=flags, **more)  # type: ignore[arg-type, misc]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield asked
    over.set()


def test_names_that_nobody_answers_for_hold_up_no_other_host(dead_names):
    """Six threads of asyncio's looked up names and addresses alike: six dead names stopped every host."""

    async def look_up() -> None:
        # More of one team than it may have; the same name is looked up once.
        dead = [
            asyncio.ensure_future(reach.connected(f"{number % 30}.dead", 22, (), OURS))
            for number in range(60)
        ]
        await asyncio.sleep(0)
        for host in ("127.0.0.1", "localhost"):
            with await asyncio.wait_for(reach.connected(host, port, (), THEIRS), 30) as made:
                assert made.getpeername() == ("127.0.0.1", port)
        refused = [one.exception() for one in dead if one.done()]
        assert len(refused) == 60 - 2 * reach.OF_GROUP
        assert all("too many names" in str(error) for error in refused)
        for one in dead:
            one.cancel()

    with socket.create_server(("127.0.0.1", 0)) as good:
        port = good.getsockname()[1]
        asyncio.run(look_up())
    assert len(dead_names) == reach.OF_GROUP


def test_a_name_that_is_not_found_gives_its_thread_back():
    async def look_up() -> None:
        for _ in range(reach.OF_GROUP + 1):
            with pytest.raises(socket.gaierror):
                await reach.resolve_host("no-such-host.invalid", OURS)

    asyncio.run(look_up())
    assert not reach._under_way and not reach._of_group.total()
