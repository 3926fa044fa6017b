"""A host at the other end of SSH that floods, dawdles, lies and shouts: it is cut off, and told of in plain words."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from dataclasses import replace

import pytest

from agents.contracts import AgentError, Reason
from agents.facts import reading
from agents.plaintext import CONTROL
from agents.ssh import command, shell
from benchlab.hosts import discovery, registration, ssh_access
from benchlab.hosts.models import Host
from tests.security.hostile import ALL, MARKUP, SHELL, TERMINAL
from tests.security.markup import Page
from tests.security.ssh_host import hostile

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


async def floods(process) -> None:
    while not process.is_closing():
        process.stdout.write(b"A" * 65536)
        await process.stdout.drain()


async def dawdles(process) -> None:
    while True:
        process.stdout.write(b".")
        await asyncio.sleep(0.05)


def says(out: bytes, err: bytes = b"", code: int = 0):
    """It runs the `echo` in front of a command, as any login shell, and answers the rest with that."""

    async def answer(process) -> None:
        mark = process.command.removeprefix("echo ").partition(";")[0]
        process.stdout.write(f"{mark}\n".encode() + out)
        process.stderr.write(err)
        process.exit(code)

    return answer


def test_endless_output_is_cut_off(monkeypatch):
    monkeypatch.setattr(command, "OUTPUT_CAP", 4 << 20)
    with hostile(floods) as address, pytest.raises(AgentError, match="more than 4 MiB") as raised:
        shell.connect_shell(address).run(("cat", "/dev/zero"))
    assert raised.value.reason is Reason.COMMAND_FAILED


def test_a_host_that_answers_slowly_for_ever_is_not_waited_for():
    began = time.monotonic()
    with hostile(dawdles) as address, pytest.raises(AgentError, match="did not end") as raised:
        shell.connect_shell(address).run(("true",), timeout_s=0.5)
    assert raised.value.reason is Reason.TIMED_OUT and time.monotonic() - began < 10


def test_a_server_that_never_says_who_it_is_is_not_waited_for(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(AgentError) as raised:
            shell.offered_host_key("127.0.0.1", silent.getsockname()[1], 0.5)
    assert raised.value.reason is Reason.TIMED_OUT and time.monotonic() - began < 10


@pytest.mark.parametrize("line", [b"HTTP/1.1 400 <script>pwned()</script>\r\n" * 40, b"\x1b]0;pwned\x07" * 99 + b"\n",
                                  b"\0" * 9000, b"A" * 70000, b"SSH-2.0-\x1b[31mpwned\r\n"])  # fmt: skip
def test_what_is_no_ssh_server_is_told_of_plainly(line):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            made, _ = server.accept()
            with made, contextlib.suppress(OSError):  # it may hang up before the end
                made.sendall(line)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(AgentError) as raised:
            shell.offered_host_key("127.0.0.1", server.getsockname()[1], 5)
        thread.join(10)
    assert plain(str(raised.value))


def test_banners_and_versions_reach_nobody():
    with hostile(says(b"ok\n"), version="x-pwned", banner=TERMINAL + MARKUP) as address:
        ran = shell.connect_shell(address).run(("true",))
    assert (ran.stdout, ran.stderr) == (b"ok\n", b"")


def test_complaints_are_made_plain():
    answer = says(b"", f"sudo: {TERMINAL}\0{MARKUP}".encode(), 1)
    with hostile(answer) as address, pytest.raises(AgentError) as raised:
        shell.connect_shell(replace(address, user="bench")).run(("true",), root=True)
    assert raised.value.reason is Reason.NO_SUDO and plain(str(raised.value))


READINGS = [
    b"", b"\0" * 100, b"=n facts\n", b"=n facts\n=n complete\n",
    b"=n facts\n" + b"=n begin x\n" * 100_000 + b"\n=n complete\n",
    b"=n facts\n" + b"=n begin uid\n0\n\n=n end 9999999999\n\n=n done\n" + b"=n complete\n",
    b"=n facts\n=n begin system\nFreeBSD\n\n=n end 0\n\n=n done\n=n complete\n",
    b"=n facts\n=n begin system\n\x1b[31mplan9\n\n=n end 0\n\n=n done\n=n complete\n",
    b"=n facts\n" + b"".join(b"=n begin %s\n%s\n=n end 0\n\n=n done\n" % (name, b"9" * 5000)
                              for name in (b"uid", b"files", b"picked", b"tree", b"lsblk")) + b"=n complete\n",
]  # fmt: skip


@pytest.mark.parametrize("said", READINGS)
def test_a_reading_that_makes_no_sense_is_refused_at_once(said):
    began = time.monotonic()
    with hostile(says(said)) as address, pytest.raises(AgentError) as raised:
        reading.read_facts(shell.connect_shell(address))
    assert raised.value.reason is Reason.BAD_FACTS and plain(str(raised.value))
    assert time.monotonic() - began < 20


def plain(text: str) -> bool:
    return not CONTROL.search(text) and len(text) < 10_000


@pytest.fixture
def host(team) -> Host:
    return registration.add_host(team, "bad", "127.0.0.1", registration.make_credential(team, "k"))


def test_trouble_with_such_a_host_is_kept_and_shown(host, owner):
    error = AgentError(f"{ALL}\0\ud800{'A' * 2**20}", Reason.CONNECTION_LOST)
    ssh_access.record_trouble(host, error)
    host.refresh_from_db()
    assert "pwned" in host.trouble_text and plain(host.trouble_text)
    page = Page(owner.get(f"/hosts/{host.pk}/").content.decode())
    assert page.shown and page.wrong == []


def test_facts_are_cut_to_what_pages_can_show(host):
    from tests.hosts.conftest import disk, facts

    words = ALL + "\0" + "A" * 10**6
    found = facts(disk("sdb", model=words, serial=SHELL + words), hostname=words, boot_id=words)
    snapshot = discovery.store_facts(host, found)
    device = host.devices.get(name="sdb")
    assert len(snapshot.facts["hostname"]) <= discovery.FACT_MAX
    assert plain(device.model) and plain(device.serial) and plain(snapshot.facts["hostname"])


def test_a_host_of_too_many_devices_is_not_believed(host):
    from tests.hosts.conftest import disk, facts

    many = [disk("sdb")] * (discovery.DEVICES_MAX + 1)
    with pytest.raises(AgentError, match="devices") as raised:
        discovery.store_facts(host, facts(*many))
    assert raised.value.reason is Reason.BAD_FACTS
