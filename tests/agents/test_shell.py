"""Commands over SSH, on a real OpenSSH server, and every way in which a connection says no."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agents.contracts import AgentError, Ran, Reason, Secret
from agents.jobs import job
from agents.jobs.job import State
from agents.ssh import command, dial, keys, loop, pool, shell
from agents.ssh.lasting_shell import LastingShell
from tests.agents.conftest import sh, work
from tests.agents.sshd import free_port, sshd


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with sshd(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.fixture
def remote(address):
    return shell.connect_shell(address)


def refused(reason: Reason, *says: str):
    """The error of the block has this reason, and these words."""
    return pytest.raises(
        AgentError, check=lambda e: e.reason is reason and all(s in str(e) for s in says)
    )


def other(address, **changes):
    return dataclasses.replace(address, **changes)


def test_words_output_and_exit_code(remote):
    script = 'printf "%s|" "$@"; echo oops >&2; exit 7'
    words = ("a b", "it's", "$HOME", "", "*", "two\nlines")
    ran = remote.run(("sh", "-c", script, "x", *words))
    assert (ran.exit_code, ran.stderr) == (7, b"oops\n")
    assert ran.stdout == b"a b|it's|$HOME||*|two\nlines|"
    assert 0 < ran.seconds < 30


def test_a_secret_arrives_and_is_not_shown(remote):
    ran = remote.run(("echo", Secret("hush hush")))
    assert ran.stdout == b"hush hush\n"
    assert "hush" not in repr(ran.argv)
    with refused(Reason.TIMED_OUT, "***") as caught:
        remote.run(("sleep", "5", Secret("0.001")), timeout_s=0.5)
    assert "0.001" not in str(caught.value)


def test_the_locale_is_c_and_a_signal_is_128_and_more(remote):
    assert remote.run(("printenv", "LC_ALL")).stdout == b"C\n"
    assert remote.run(("sh", "-c", "kill -9 $$")).exit_code == 137


def test_much_goes_in_and_out(remote):
    much = os.urandom(20 << 20)
    assert remote.run(("cat",), stdin=much).stdout == much
    assert remote.run(("true",), stdin=much).exit_code == 0  # reads none of it


def test_too_much_output_is_an_error(remote, monkeypatch):
    monkeypatch.setattr(command, "OUTPUT_CAP", 1 << 20)
    with refused(Reason.COMMAND_FAILED, "more than 1 MiB"):
        remote.run(("head", "-c", "3M", "/dev/zero"))
    assert remote.run(("echo", "on")).stdout == b"on\n"


def test_a_command_that_takes_too_long(remote):
    began = time.monotonic()
    with refused(Reason.TIMED_OUT, "sleep 20", "may still run"):
        remote.run(("sleep", "20"), timeout_s=0.5)
    assert time.monotonic() - began < 5


def test_a_connection_lost_in_the_middle_is_not_repeated(remote, tmp_path):
    count = tmp_path / "count"
    with refused(Reason.CONNECTION_LOST, "it is unknown whether"):
        # Two up: the command's shell, then the sshd of this connection.
        remote.run(("sh", "-c", 'echo once >> "$0"; kill -9 $PPID; sleep 5', str(count)))
    assert count.read_text() == "once\n"
    assert remote.run(("echo", "again")).stdout == b"again\n"


def test_a_dead_pooled_connection_is_replaced(remote, address):
    (link,) = [x for x in loop.pool.links[address] if not x.connection.is_closed()]
    # Its socket dies without a word: only the next command finds out.
    link.connection.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    assert remote.run(("echo", "still here")).stdout == b"still here\n"


def test_a_server_that_went_away(tmp_path):
    with sshd(tmp_path) as made:
        gone = shell.connect_shell(made)
        gone.run(("true",))
    for link in loop.pool.links[made]:
        link.connection.abort()
    with refused(Reason.CONNECTION_REFUSED, "nothing listens"):
        gone.run(("true",))


def test_connections_are_shared_and_sessions_counted(remote, address):
    with ThreadPoolExecutor(pool.SESSIONS + 4) as threads:
        ran = list(threads.map(lambda _: remote.run(("sleep", "0.5")), range(pool.SESSIONS + 4)))
    assert [one.exit_code for one in ran] == [0] * (pool.SESSIONS + 4)
    links = [link for link in loop.pool.links[address] if not link.connection.is_closed()]
    assert len(links) == 2 and not any(link.sessions for link in links)


def test_an_idle_connection_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "IDLE_S", 0.1)
    with sshd(tmp_path) as made:
        shell.connect_shell(made)
        (link,) = loop.pool.links[made]
        limit = time.monotonic() + 5
        while not link.connection.is_closed():
            assert time.monotonic() < limit
            time.sleep(0.05)


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_worker_begins_anew(remote):
    def child(answers):
        answers.put(remote.run(("echo", "child")).stdout)

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    assert answers.get(timeout=20) == b"child\n"
    process.join()
    assert remote.run(("echo", "parent")).stdout == b"parent\n"


def test_the_offered_key_is_the_hosts(address, tmp_path):
    offered = shell.offered_host_key(address.host, address.port)
    assert (offered.type, offered.public_key) == ("ssh-ed25519", address.host_key)
    (tmp_path / "key.pub").write_text(offered.public_key + "\n")
    said = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True, text=True
    )
    assert offered.fingerprint == shell.fingerprint(offered.public_key) == said.stdout.split()[1]


def test_a_changed_key_shows_both_fingerprints(address):
    new = keys.generate_key_pair("another")[1]
    with refused(
        Reason.HOST_KEY_CHANGED, shell.fingerprint(new), shell.fingerprint(address.host_key)
    ):
        shell.connect_shell(other(address, host_key=new))


def test_a_changed_kind_of_key_too(address, tmp_path):
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", tmp_path / "key"], check=True
    )
    pinned = (tmp_path / "key.pub").read_text()
    with refused(
        Reason.HOST_KEY_CHANGED, shell.fingerprint(pinned), shell.fingerprint(address.host_key)
    ):
        shell.connect_shell(other(address, host_key=pinned))


def test_the_ways_to_be_refused(address):
    with refused(Reason.HOST_KEY_UNKNOWN, "confirm"):
        shell.connect_shell(other(address, host_key=""))
    with refused(Reason.CONNECTION_REFUSED, "nothing listens", "check the port"):
        shell.connect_shell(other(address, port=free_port()))
    with refused(Reason.NAME_NOT_FOUND, "spelling"):
        shell.connect_shell(other(address, host="no-such-host.invalid"))
    with refused(Reason.AUTHENTICATION_FAILED, "authorized_keys"):
        shell.connect_shell(other(address, private_key=Secret(keys.generate_key_pair("x")[0])))
    with refused(Reason.CONNECTION_REFUSED):
        shell.offered_host_key("127.0.0.1", free_port())


def test_a_silent_host_is_timed_out(address, monkeypatch):
    monkeypatch.setattr(dial, "BANNER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with refused(Reason.TIMED_OUT, "sent no SSH banner"):
            shell.connect_shell(other(address, port=port))
        with refused(Reason.TIMED_OUT):
            shell.offered_host_key("127.0.0.1", port, 0.3)


def test_a_server_of_another_kind_is_said(address):
    with socket.create_server(("127.0.0.1", 0)) as web:

        def answer():
            for _ in range(2):
                client, _address = web.accept()
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                client.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with refused(Reason.CONNECTION_LOST, "SSH server"):
            shell.connect_shell(other(address, port=web.getsockname()[1]))
        thread.join()


def test_private_keys_are_checked(tmp_path, ssh_keygen):
    private, public = keys.generate_key_pair("me@here")
    assert keys.check_private_key(private).split()[:2] == public.split()[:2]
    assert public.endswith("me@here")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "key"], check=True
    )
    with refused(Reason.AUTHENTICATION_FAILED, "passphrase"):
        keys.check_private_key((tmp_path / "key").read_text())
    for text in ("", "nonsense", public, private[:200]):
        with refused(Reason.AUTHENTICATION_FAILED, "cannot be read"):
            keys.check_private_key(text)
    with pytest.raises(AgentError, match="not a public key"):
        shell.fingerprint("ssh-ed25519 nonsense")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, b"sudo: a password is required\n"),
        (1, b"sudo: sorry, you must have a tty to run sudo\n"),
        (1, b"bob is not in the sudoers file.  This incident will be reported.\n"),
        (127, b"bash: line 1: sudo: command not found\n"),
        (127, b"sh: 1: sudo: not found\n"),
    ],
)
def test_no_sudo_is_said_with_the_cure(address, code, said):
    with refused(Reason.NO_SUDO, "NOPASSWD", "bob"):
        shell.check_sudo(Ran((), code, b"", said), other(address, user="bob"))
    shell.check_sudo(Ran((), code, b"", b"fio: bad option\n"), address)


def test_a_job_outlives_its_connection(remote, address, base):
    spool = job.Spool("attempt-1", root=False, base=str(base))
    tool = dataclasses.replace(sh("sleep 1; echo done", inputs={"big": bytes(5 << 20)}), root=False)
    job.start_job(remote, spool, tool, ("/proc/diskstats",), 0.2)
    for link in loop.pool.links[address]:
        link.connection.abort()
    polled = job.poll(remote, spool, 10)
    assert (polled.state, polled.exit_code) == (State.EXITED, 0)
    fetched = job.fetch(remote, spool)
    assert fetched.files["stdout"] == b"done\n"
    assert len(job.frames(fetched.samples)) >= 4
    job.remove_spool(remote, spool)


def test_a_start_cut_off_in_the_middle_can_be_repeated(remote, base):
    spool = job.Spool("attempt-1", root=False, base=str(base))
    tool = dataclasses.replace(work("true", inputs={"big": os.urandom(60 << 20)}), root=False)
    line = job.script(spool, "start")
    sent = job.archive(tool, (), 1.0)
    with refused(Reason.TIMED_OUT):
        remote.run(line, stdin=sent, timeout_s=0.15)
    limit = time.monotonic() + 10
    while job.poll(remote, spool).state is not State.ABSENT:
        assert time.monotonic() < limit
        time.sleep(0.1)


NOISY = "echo; echo Welcome; echo start=already; printf 'state=exited exit=0'; echo mail >&2\n"


def test_what_the_login_shell_prints_is_no_part_of_an_answer(tmp_path, base):
    """A .bashrc may print whatever it likes, even what one of our scripts could."""
    with sshd(tmp_path, bashrc=NOISY) as made:
        noisy = shell.connect_shell(made)
        script = 'printf "%s|" "$@"; echo oops >&2; exit 7'
        for run in (noisy.run, LastingShell(noisy).run):
            for _ in range(2):
                ran = run(("sh", "-c", script, "x", "a b", "$HOME"))
                assert (ran.exit_code, ran.stdout) == (7, b"a b|$HOME|")
                assert ran.stderr.endswith(b"oops\n")
        spool = job.Spool("attempt-1", root=False, base=str(base))
        started = job.start_job(noisy, spool, dataclasses.replace(sh("echo done"), root=False))
        assert not started.already
        assert job.poll(noisy, spool, 10).state is State.EXITED
        assert job.fetch(noisy, spool).files["stdout"] == b"done\n"
        job.remove_spool(noisy, spool)


@pytest.mark.parametrize("code", [0, 3])
def test_a_login_shell_that_ends_before_the_command_is_said(tmp_path, code):
    """With exit code 0 the command would seem to have succeeded."""
    with sshd(tmp_path, bashrc=f"echo Closed for repair; exit {code}\n") as made:
        shut = shell.connect_shell(made)
        for _ in range(2):
            with refused(Reason.COMMAND_FAILED, "login shell", f"exit code {code}", "Closed for"):
                shut.run(("wipefs", "--version"))
        with refused(Reason.CONNECTION_LOST, f"exit code {code}"):
            LastingShell(shut).run(("true",), root=True)
