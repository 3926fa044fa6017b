"""Many commands on one channel of a real OpenSSH server: each as if it had a channel of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time

import pytest

from agents.contracts import Reason, Secret
from agents.ssh import command, loop, pool, shell
from agents.ssh import lasting_shell as lasting_module
from agents.ssh.lasting_shell import LastingShell, lasting
from tests.agents.local_shell import LocalShell
from tests.agents.sshd import sshd
from tests.agents.test_shell import refused

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="the SSH server lets in who we are, and others need sudo"
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with sshd(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_rests(address, monkeypatch):
    """Wait until nothing rests: a shell that one test left is not the next one's."""
    monkeypatch.setattr(pool, "REST_S", 0.1)
    yield
    wait_until(lambda: address not in loop.pool.resting)


def wait_until(true):
    for _ in range(50):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("not within 5 s")


@pytest.fixture
def remote(address):
    with lasting(shell.connect_shell(address)) as made:
        yield made


def run(remote, *argv, **given):
    return remote.run(argv, root=True, **given)


def test_words_output_and_exit_code(remote):
    script = 'printf "%s|" "$@"; echo oops >&2; exit 7'
    words = ("a b", "it's", "$HOME", "", "*", "two\nlines")
    for _ in range(3):
        ran = run(remote, "sh", "-c", script, "x", *words)
        assert (ran.exit_code, ran.stderr) == (7, b"oops\n")
        assert ran.stdout == b"a b|it's|$HOME||*|two\nlines|"


def test_all_of_them_have_one_shell(remote):
    parents = {run(remote, *PARENT).stdout for _ in range(3)}
    assert len(parents) == 1


def test_nothing_is_left_for_the_next_one(remote):
    assert run(remote, "cd", "/proc").exit_code == 0
    assert run(remote, "pwd").stdout.strip() != b"/proc"
    assert run(remote, "exit", "3").exit_code == 3
    assert run(remote, "export", "SOME=1").exit_code == 0
    assert run(remote, "printenv", "SOME").exit_code == 1
    assert run(remote, "cat").stdout == b""  # its stdin is empty, and not the commands to come
    assert run(remote, "no-such-program").exit_code == 127


def test_the_locale_is_c_and_a_signal_is_128_and_more(remote):
    assert run(remote, "printenv", "LC_ALL").stdout == b"C\n"
    assert run(remote, "printenv", "MALLOC_TRIM_THRESHOLD_").stdout == b"67108864\n"
    assert run(remote, "sh", "-c", "kill -9 $$").exit_code == 137


def test_bytes_come_as_they_are(remote):
    for size in (0, 1, 100, 3 << 20):
        much = run(remote, "head", "-c", str(size), "/dev/zero")
        assert much.stdout == bytes(size)
    assert run(remote, "printf", r"\377\n\n=0 1\n").stdout == b"\xff\n\n=0 1\n"


def test_a_secret_arrives_and_is_not_shown(remote):
    assert run(remote, "echo", Secret("hush hush")).stdout == b"hush hush\n"
    with refused(Reason.TIMED_OUT, "***") as caught:
        run(remote, "sleep", "5", Secret("0.001"), timeout_s=0.5)
    assert "0.001" not in str(caught.value)


def test_too_much_output_is_an_error_and_the_next_one_goes_on(remote, monkeypatch):
    monkeypatch.setattr(command, "OUTPUT_CAP", 1 << 20)
    with refused(Reason.COMMAND_FAILED, "more than 1 MiB"):
        run(remote, "head", "-c", "3M", "/dev/zero")
    assert run(remote, "echo", "on").stdout == b"on\n"
    for _ in range(3):  # each has the whole cap
        assert len(run(remote, "head", "-c", "700K", "/dev/zero").stdout) == 700 << 10


def test_a_command_that_takes_too_long(remote):
    began = time.monotonic()
    with refused(Reason.TIMED_OUT, "sleep 20", "may still run"):
        run(remote, "sleep", "20", timeout_s=0.5)
    assert time.monotonic() - began < 5
    assert run(remote, "echo", "on").stdout == b"on\n"


def test_a_shell_that_is_killed_is_no_exit_code(remote, tmp_path):
    count = tmp_path / "count"
    with refused(Reason.CONNECTION_LOST, "it is unknown whether", "exit code 137"):
        run(remote, "sh", "-c", f'echo once >> "{count}"; kill -9 $PPID; sleep 3')
    assert count.read_text() == "once\n"
    assert run(remote, "echo", "again").stdout == b"again\n"


def test_a_connection_lost_in_the_middle_is_not_repeated(remote, tmp_path):
    count = tmp_path / "count"
    sshd_of = "read -r _ _ _ up _ </proc/$PPID/stat"
    with refused(Reason.CONNECTION_LOST, "it is unknown whether"):
        run(remote, "sh", "-c", f'echo once >> "{count}"; {sshd_of}; kill -9 $up; sleep 5')
    assert count.read_text() == "once\n"
    assert run(remote, "echo", "again").stdout == b"again\n"


def test_a_connection_known_to_be_dead_is_replaced(remote, address):
    assert run(remote, "true").exit_code == 0
    for link in loop.pool.links[address]:
        link.connection.abort()
    time.sleep(0.2)
    assert run(remote, "echo", "still here").stdout == b"still here\n"


def test_a_connection_that_died_without_a_word_is_no_second_try(remote, address, tmp_path):
    assert run(remote, "true").exit_code == 0
    (link,) = [x for x in loop.pool.links[address] if not x.connection.is_closed()]
    link.connection.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    count = tmp_path / "count"
    try:  # whether the loop has seen it by now or not: never twice
        run(remote, "sh", "-c", f'echo once >> "{count}"')
    except Exception:
        assert not count.exists()
    else:
        assert count.read_text() == "once\n"


@pytest.mark.parametrize("pause", ["", "sleep 1; "])
def test_sudo_that_says_no(remote, monkeypatch, pause):
    says = f"{pause}echo 'sudo: a password is required' >&2; exit 1"
    monkeypatch.setattr(
        lasting_module, "command_line", lambda argv: says if argv[-1] == "sh" else "true"
    )
    for _ in range(2):
        with refused(Reason.NO_SUDO, "a password is required", "NOPASSWD"):
            run(remote, "true")


def test_stdin_and_users_go_their_own_way(remote):
    assert run(remote, "cat", stdin=b"in").stdout == b"in"
    assert remote.run(("echo", "plain")).stdout == b"plain\n"


PARENT = ("sh", "-c", "echo $PPID")


def sessions(address):
    return sum(link.sessions for link in loop.pool.links[address])


def test_the_channel_is_given_back(address):
    with lasting(shell.connect_shell(address)) as remote:
        run(remote, "true")
        assert sessions(address) == 1
    wait_until(lambda: sessions(address) == 0)
    assert isinstance(remote, LastingShell)
    remote.close_shell()


def test_the_next_block_finds_the_shell_of_the_last_one(address, monkeypatch):
    monkeypatch.setattr(pool, "REST_S", 5.0)
    remote = shell.connect_shell(address)
    with lasting(remote) as first:
        parent = run(first, *PARENT).stdout
    with lasting(remote) as second, lasting(remote) as beside:
        assert run(second, *PARENT).stdout == parent
        assert run(beside, *PARENT).stdout != parent
    monkeypatch.setattr(pool, "REST_S", 0.1)
    with lasting(remote) as third:  # one of the two rested, the other was ended
        run(third, "true")
        assert sessions(address) == 1


def test_a_shell_that_died_while_it_rested_is_replaced(address, monkeypatch):
    monkeypatch.setattr(pool, "REST_S", 5.0)
    with lasting(shell.connect_shell(address)) as remote:
        os.kill(int(run(remote, *PARENT).stdout), signal.SIGKILL)
        time.sleep(0.2)
        assert isinstance(remote, LastingShell) and remote._held is not None  # nobody has noticed
    monkeypatch.setattr(pool, "REST_S", 0.1)
    with lasting(shell.connect_shell(address)) as remote:
        assert run(remote, "echo", "on").stdout == b"on\n"


SCRIPTS = [
    'printf "%s|" "$#" "$@"',
    "exit 7",
    "false",
    "cd /tmp; pwd; export A=1; B=2; set -f; echo *; shift 9 2>/dev/null; echo on",
    "exec echo gone; echo not",
    "cat; echo nothing came in",
    "if then",
    "echo ${unset-unset} ${A-unset} ${B-unset}; echo *",
    "cat <<EOF\n$1\nEOF\nf() { return 3; }; f",
    "# only words",
    "",
    "set -e; false; echo not",
    'case $0 in own) echo "as $0" ;; esac; [ "$PPID" != "$$" ] && echo "${0}"',
]


@pytest.mark.one_in(2)
def test_a_script_is_run_as_by_a_shell_of_its_own(address):
    """Whatever the one before it did to its own."""
    plain = shell.connect_shell(address)
    with lasting(plain) as remote:
        for script in SCRIPTS:
            for words in ((), ("a b", "it's", "", "*", "two\nlines", "-e", "--")):
                argv = ("sh", "-c", script, "own", *words)
                alone, beside = run(plain, *argv), run(remote, *argv)
                assert (beside.exit_code, beside.stdout) == (alone.exit_code, alone.stdout), argv
                assert bool(beside.stderr) == bool(alone.stderr), argv


def test_a_script_starts_no_shell_but_where_it_asks_who_it_is(remote):
    starting = ("echo $$", "echo ${$}", "echo $0", 'echo "${0##*/}"')
    shells = [lasting_module._shell_line(("sh", "-c", script, "own")) for script in starting]
    assert all(line.startswith("sh -c") for line in shells)
    assert lasting_module._shell_line(("sh", "-c", "echo ${1#0} $?", "own", "x")).startswith(
        "{ set --"
    )


def test_another_shell_stays_as_it_is(tmp_path):
    plain = LocalShell()
    with lasting(plain) as same:
        assert same is plain


@pytest.fixture
def node(tmp_path):
    made = tmp_path / "node"
    made.write_bytes(b"")
    return str(made)


def is_free(node: str) -> bool:
    return subprocess.run(["flock", "-n", "-x", node, "true"]).returncode == 0


def test_disks_are_held_from_the_next_command_on_until_they_are_free(remote, node, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"")
    remote.hold({node, str(tmp_path / "not there")})
    ran = run(remote, "sh", "-c", "ls /proc/self/fd; echo on")
    assert ran.stdout.endswith(b"on\n") and b"3\n4\n5\n" not in ran.stdout
    assert ran.stderr == b"" and not is_free(node)
    remote.hold({str(other)})
    assert run(remote, "false").exit_code == 1
    assert not is_free(node) and not is_free(str(other))
    remote.free()
    assert run(remote, "flock", "-n", node, "echo", "on").stdout == b"on\n"
    assert is_free(str(other))


def test_what_runs_on_for_ever_holds_no_disk(remote, node):
    remote.hold({node})
    run(remote, "sh", "-c", 'sleep 30 >/dev/null 2>&1 & echo $! > "$0".pid', node)
    assert not is_free(node)
    remote.free()
    run(remote, "true")
    try:
        assert is_free(node)
    finally:
        run(remote, "sh", "-c", 'kill "$(cat "$0".pid)"', node)


def test_disks_are_free_before_a_command_on_a_channel_of_its_own(remote, node):
    remote.hold({node})
    run(remote, "true")
    remote.free()
    assert run(remote, "flock", "-n", node, "cat", stdin=b"in").stdout == b"in"


def test_a_shell_that_ends_holds_no_disk(address, node):
    with lasting(shell.connect_shell(address)) as remote:
        assert isinstance(remote, LastingShell)
        remote.hold({node})
        run(remote, "true")
        assert not is_free(node)
    wait_until(lambda: is_free(node))


def test_more_disks_than_can_be_held(remote, tmp_path):
    nodes = [tmp_path / f"node{number:02}" for number in range(12)]
    for one in nodes:
        one.write_bytes(b"")
    remote.hold(set(map(str, nodes)))
    assert run(remote, "echo", "on").stdout == b"on\n"
    assert [is_free(str(one)) for one in nodes] == [False] * 7 + [True] * 5
    remote.hold({str(tmp_path / "node11")})
    assert run(remote, "echo", "on").stdout == b"on\n"


def test_a_disk_that_cannot_be_opened_ends_nothing(remote, node, tmp_path):
    """A socket can be read, by its mode, and not be opened."""
    place = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        remote.hold({place})
        remote.hold({node})
        ran = run(remote, "echo", "on")
    assert (ran.stdout, ran.stderr) == (b"on\n", b"")
    assert not is_free(node)


def test_where_root_has_logged_in_every_command_is_roots(remote):
    assert run(remote, *PARENT).stdout == remote.run(PARENT).stdout
