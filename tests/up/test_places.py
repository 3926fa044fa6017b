"""Ports, secrets, the state directory, and what a person is told when one of them is not to be had."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from types import SimpleNamespace

import pytest

from benchlab.up import database, ports, procs, state, supervised
from benchlab.up.state import State
from benchlab.up.trouble import Trouble


@pytest.fixture
def busy():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        yield server.getsockname()[1]


def test_a_busy_port_is_named_with_its_holder_and_a_way_out(busy):
    with pytest.raises(Trouble, match=rf"Port {busy} .*process {os.getpid()} .*(?s:.)*--port \d+"):
        ports.require_port("127.0.0.1", busy)


def test_a_free_port_passes():
    ports.require_port("127.0.0.1", ports.free_port())


def test_a_strange_address_is_said():
    with pytest.raises(Trouble, match=r"Cannot listen on 192\.0\.2\.1 port 8000"):
        ports.require_port("192.0.2.1", 8000)


def test_a_port_is_kept_until_somebody_else_has_it(tmp_path):
    here = State(tmp_path)
    port = ports.kept_port(here, "ssh")
    assert ports.kept_port(here, "ssh") == port
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen(1)
        moved = ports.kept_port(here, "ssh")
    assert moved != port
    assert ports.kept_port(here, "ssh") == moved


def test_secrets_are_made_once_and_for_the_owner_only(tmp_path):
    here = State(tmp_path)
    made = state.load_secrets(here)
    assert state.load_secrets(here) == made
    assert set(made) == {"SECRET_KEY", "BENCHLAB_KEY", "REDIS_PASSWORD", state.MARKER}
    assert stat.S_IMODE((tmp_path / "secrets.json").stat().st_mode) == 0o600


def test_damaged_secrets_are_never_replaced(tmp_path):
    (tmp_path / "secrets.json").write_text("")
    with pytest.raises(Trouble, match="restore it"):
        state.load_secrets(State(tmp_path))
    assert (tmp_path / "secrets.json").read_text() == ""


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    full = SimpleNamespace(free=12 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(Trouble, match=r"nearly full: 12 MiB free.*BENCHLAB_STATE"):
        State(tmp_path / "here").create()


def test_a_long_path_gets_a_short_socket_directory(tmp_path):
    deep = State(tmp_path / ("d" * 100))
    assert len(str(deep.socket_dir())) <= state.MAX_SOCKET_DIR
    assert State(tmp_path).socket_dir() == tmp_path / "run"


def test_the_pages_may_be_asked_for_by_every_name_we_listen_on():
    assert supervised.names_of("127.0.0.1") == ["localhost", "127.0.0.1", "[::1]"]
    assert "bench.lan" in supervised.names_of("bench.lan")
    assert socket.gethostname() in supervised.names_of("0.0.0.0")


def test_urls():
    assert supervised.page_url("0.0.0.0", 80) == "http://127.0.0.1:80/"
    assert supervised.page_url("::", 8000) == "http://[::1]:8000/"


@pytest.mark.parametrize(("deaths", "seconds"), [(1, 1), (2, 2), (4, 8), (9, 30)])
def test_a_dying_service_is_started_ever_more_rarely(deaths, seconds):
    assert supervised.pause_after(deaths) == seconds


@pytest.mark.parametrize(("code", "words"), [(1, "exit 1"), (-9, "killed by SIGKILL")])
def test_how_a_service_ended(code, words):
    assert supervised.describe_end(code) == words


def test_a_command_beside_up_speaks_to_the_valkey_that_runs(tmp_path, monkeypatch):
    """Its port is taken, by itself: another port would be nobody's, and what is sent there lost."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@/none")
    monkeypatch.delenv("REDIS_URL", raising=False)
    here = State(tmp_path)
    here.create()
    port = ports.kept_port(here, "valkey")
    kept = (tmp_path / "ports.json").read_text()
    state.write_json(here.running, procs.identify("up", os.getpid()).as_json())
    with socket.socket() as valkey:
        valkey.bind(("127.0.0.1", port))
        valkey.listen(1)
        with database.for_command(here) as env:
            assert f":{port}" in env["REDIS_URL"]
    assert (tmp_path / "ports.json").read_text() == kept
