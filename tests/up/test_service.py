"""Units of systemd: systemd's own programs find nothing wrong with them, and `up` tells it when it is ready."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from benchlab.up import database, install_service, supervised, supervisor
from benchlab.up.state import State
from benchlab.up.trouble import Trouble

ANALYZE = shutil.which("systemd-analyze") or ""
needs_systemd = pytest.mark.skipif(not ANALYZE, reason="no systemd-analyze here")
# A tenth of the exposure that `systemd-analyze security` may find, by what a unit runs.
EXPOSED = {"benchlab": 22, "worker": 22, "web": 15, "beat": 15, "prepare": 15, "dynamo": 15}


def wish(state: Path, user: str = "benchlab") -> install_service.Wish:
    return install_service.Wish("benchlab", state, "127.0.0.1", 8000, user)


def written(units: dict[str, str], place: Path) -> list[str]:
    for name, text in units.items():
        (place / name).write_text(text)
    return [str(place / name) for name in units]


def analyze(*words: str) -> tuple[int, str]:
    env = {**os.environ, "XDG_RUNTIME_DIR": "/run"}  # for --user
    argv = [ANALYZE, *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@needs_systemd
@pytest.mark.parametrize("make", [install_service.whole, install_service.split])
@pytest.mark.parametrize("user", ["benchlab", ""])
def test_systemd_takes_them(make, user, tmp_path):
    """Also with a path that has all that systemd would take for something else."""
    state = tmp_path / '50% of "$HOME"; \\ x'
    files = written(make(wish(state, user)), tmp_path)
    how = [] if user else ["--user"]
    code, said = analyze("verify", "--man=no", *how, *files)
    ours = [line for line in said.splitlines() if "benchlab" in line]
    assert (code, ours) == (0, []), said


@needs_systemd
def test_they_expose_little(tmp_path):
    units = install_service.whole(wish(tmp_path)) | install_service.split(wish(tmp_path))
    for name in units:
        [file] = written({name: units[name]}, tmp_path)
        most = EXPOSED.get(name.partition(".")[0].rpartition("-")[2])
        if name.endswith(".target"):
            continue
        code, said = analyze("security", "--offline=true", f"--threshold={most}", file)
        assert code == 0, said[-200:]


def test_words_reach_the_program_as_they_are():
    assert install_service.command(["/a b", "50%", "$x", 'q"\\', "plain"]) == (
        '"/a b" 50%% $$x "q\\"\\\\" plain'
    )


def test_split_units_run_what_up_runs(tmp_path):
    units = install_service.split(wish(tmp_path))
    for recipe in (supervised.web("127.0.0.1", 8000, {}), supervised.worker({}),
                   supervised.beat(State(tmp_path), {})):  # fmt: skip
        start = f"ExecStart={install_service.command(recipe.argv)}\n"
        assert start in units[f"benchlab-{recipe.name}.service"]
    assert "--port 8000" in install_service.whole(wish(tmp_path))["benchlab.service"]


def test_no_secret_is_in_a_unit(tmp_path):
    for text in install_service.split(wish(tmp_path)).values():
        for name in install_service.SECRETS:
            assert not re.search(rf"\b{name}=", text)


def test_the_command_writes_them_and_says_what_to_type(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(install_service, "reachable", lambda path: True)
    words = ["--name", "lab2", "--port", "8001", "--write", str(tmp_path)]
    assert install_service.run(words) == 0
    assert "systemctl enable --now lab2.service" in capsys.readouterr().out
    assert "BENCHLAB_STATE=/var/lib/lab2\n" in (tmp_path / "lab2.service").read_text()
    assert install_service.run(words) == 0  # ours may be written again
    (tmp_path / "lab2.service").write_text("[Unit]\n")
    with pytest.raises(Trouble, match="not made by this command"):
        install_service.run(words)


def test_a_program_that_the_user_could_not_read_is_refused(monkeypatch):
    monkeypatch.setattr(install_service, "reachable", lambda path: False)
    with pytest.raises(Trouble, match="benchlab could not run it"):
        install_service.run([])


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_that_it_is_ready(abstract, tmp_path, monkeypatch):
    name = str(tmp_path / "notify") if not abstract else f"@benchlab-{tmp_path.name}-{id(tmp_path)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemds:
        systemds.bind(name.replace("@", "\0", 1) if abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        supervisor.notify_systemd("READY=1", "STATUS=here")
        assert systemds.recv(100) == b"READY=1\nSTATUS=here"
        assert "NOTIFY_SOCKET" not in database.base_environment(State(tmp_path))
    supervisor.notify_systemd("READY=1")  # nobody listens any more: that is no trouble
