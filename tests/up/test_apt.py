"""apt is never cut short: no Ctrl-C reaches it, and `up` and `down` wait for its end. apt itself is a script here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agents.drivers import packages
from benchlab.up import bootstrap, command, leftovers, procs, state
from benchlab.up.state import State

# As apt does: says something all the time, and is not done when it is killed.
APT = """#!/bin/sh
echo "$*" >>{place}/asked
for n in 1 2 3 4 5 6 7 8 9 10; do echo "Setting up fio ..."; sleep 0.1; done
echo configured >>{place}/done
"""
HELPER = """
import sys
from pathlib import Path
import django
django.setup()
from benchlab.up import firstrun
from benchlab.up.state import State
firstrun.shutil.which = lambda name: None if name == "fio" else name
firstrun.install_fio(State(Path(sys.argv[1])), print)
"""


# A shell gives what it runs in the background a deaf ear for Ctrl-C, and the tests may run there.
TERMINAL = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from benchlab.up.bootstrap import apt_install
apt_install([], "python3-venv")
"""


@pytest.fixture
def apt(tmp_path, monkeypatch) -> Path:
    """A directory with an `apt-get` that is first in PATH; where it says that it was through."""
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text(APT.format(place=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "done"


def begun(place: Path) -> None:
    until = time.monotonic() + 20
    while not place.exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_ctrl_c_is_heard_when_apt_is_through(apt, tmp_path, capfd):
    process = subprocess.Popen([sys.executable, "-c", TERMINAL], start_new_session=True)
    begun(tmp_path / "asked")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of the group
    assert process.wait(20) != 0
    assert apt.exists()
    assert bootstrap.WAITING in capfd.readouterr().err


def test_a_ctrl_c_that_comes_while_apt_is_being_started_is_heard_when_it_is_through(
    apt, tmp_path, capfd
):
    """A busy machine: apt had asked already, and we had not begun to wait."""
    early = TERMINAL.replace(
        'apt_install([], "python3-venv")',
        "import os; apt_install([], 'python3-venv', begun=lambda pid: os.kill(os.getpid(), signal.SIGINT))",
    )
    assert subprocess.run([sys.executable, "-c", early], timeout=30).returncode != 0
    assert apt.exists()
    assert bootstrap.WAITING in capfd.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="`up` installs fio as root only")
def test_up_that_is_told_to_stop_waits_for_apt(apt, tmp_path):
    here = State(tmp_path / "state")
    here.create()
    argv = [sys.executable, "-c", HELPER, str(here.path)]
    process = procs.spawn(argv, os.environ, subprocess.DEVNULL)
    threading.Thread(target=process.wait).start()
    begun(here.apt)
    helper = procs.identify("first_run", process.pid)
    assert helper
    procs.end([helper], patience_s=3.0)
    said: list[str] = []
    assert not apt.exists()
    leftovers.wait_for_installers(here, say=said.append)
    assert apt.exists() and not here.apt.exists()
    assert said == [bootstrap.WAITING]


def test_what_a_page_installs_here_is_waited_for(apt, tmp_path, monkeypatch, capsys):
    """As a job over our SSH server: all of it would be ended by its marker."""
    here = State(tmp_path / "state")
    here.create()
    ours = {state.MARKER: state.load_secrets(here)[state.MARKER], "PATH": os.environ["PATH"]}
    tool = procs.spawn(["sleep", "60"], ours, subprocess.DEVNULL)
    installer = procs.spawn(["apt-get", "fio"], ours | packages.FINISHES, subprocess.DEVNULL)
    waiting = [threading.Thread(target=one.wait) for one in (tool, installer)]
    for one in waiting:
        one.start()
    begun(tmp_path / "asked")
    monkeypatch.setenv("BENCHLAB_STATE", str(here.path))
    assert command.run(["manage.py", "down"]) == 0
    for one in waiting:
        one.join()
    assert (installer.returncode, tool.returncode) == (0, -signal.SIGTERM)
    assert apt.exists()
    assert bootstrap.WAITING in capsys.readouterr().out


def test_another_process_of_that_number_is_not_waited_for(tmp_path):
    me = procs.identify("apt", os.getpid())
    assert me
    here = State(tmp_path)
    state.write_json(here.apt, {**me.as_json(), "started": me.started - 1})
    leftovers.wait_for_installers(here)
    assert not here.apt.exists()
