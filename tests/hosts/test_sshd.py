"""The tests' own SSH server, where its end could leave something behind."""

from __future__ import annotations

import subprocess

import psutil
import pytest

from tests.hosts.sshd import SSHD, Sshd

pytestmark = pytest.mark.skipif(not SSHD, reason="OpenSSH's sshd is not installed")


def test_a_session_that_ends_as_the_server_is_stopped_keeps_none_running(tmp_path, monkeypatch):
    gone = subprocess.Popen(["sleep", "60"])
    session = psutil.Process(gone.pid)
    gone.kill()
    gone.wait()
    monkeypatch.setattr(psutil.Process, "children", lambda *args, **kwargs: [session])
    server = Sshd(tmp_path)
    server.start()
    process = server.process
    server.stop()
    assert process is not None and process.returncode is not None
