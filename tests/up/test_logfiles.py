"""Logs of what `up` runs stay small, and no line of them is lost: while files change, and after crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchlab.up import logfiles
from benchlab.up.bootstrap import ROOT
from benchlab.up.logfiles import Logs

# A program whose supervisor is killed before it says its last words; its output's last line has no end.
CRASH = """
import os, signal, subprocess, sys, time
from pathlib import Path
from benchlab.up.logfiles import Logs
logs = Logs(Path(sys.argv[1]), ["web"])
logs.revive()
subprocess.Popen(["sh", "-c", "read gone; echo the first; printf 'the last'"],
                 stdin=subprocess.PIPE, stdout=logs.output("web"))
print("started", flush=True)
time.sleep(60)
"""


@pytest.fixture
def logs(tmp_path):
    made = Logs(tmp_path, ["web", "worker"])
    made.revive()
    yield made
    made.close()


def say(logs: Logs, name: str, text: str) -> None:
    subprocess.run(["printf", "%s", text], stdout=logs.output(name), check=True)


def test_a_running_program_gets_a_new_file_and_every_line_is_kept(logs, tmp_path):
    count, padding = 2500, "x" * 10_000
    code = f"for number in range({count}): print(number, {padding!r})"
    subprocess.run([sys.executable, "-c", code], stdout=logs.output("web"), check=True)
    log = logs.catch_up("web")
    files = [log.with_name("web.log.2"), log.with_name("web.log.1"), log]
    assert all(0 < file.stat().st_size <= logfiles.MOST for file in files)
    lines = "".join(file.read_text() for file in files).splitlines()
    assert lines == [f"{number} {padding}" for number in range(count)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["web.log", "web.log.1", "web.log.2"]


def test_the_oldest_file_goes(tmp_path):
    ours, theirs = os.pipe()
    file = logfiles.File(tmp_path / "x.log", ours, 100)
    for number in range(100):
        os.write(theirs, b"line %d\n" % number)
        assert file.take()
    os.close(theirs)
    assert not file.take()
    os.close(ours)
    assert len(list(tmp_path.iterdir())) == 1 + logfiles.OLDER
    assert (tmp_path / "x.log").read_text().endswith("line 99\n")


def test_the_last_words_of_a_dead_program_are_there_when_asked_for(logs):
    say(logs, "web", "one\ntwo, without an end")
    say(logs, "worker", "\xff is no character\n")
    assert logs.catch_up("web").read_text() == "one\ntwo, without an end\n"
    assert logs.catch_up("worker").read_text() == "\xff is no character\n"


def test_bytes_that_are_no_text_are_kept(logs):
    os.write(logs.output("web"), b"\xff\x00\r\n")
    assert logs.catch_up("web").read_bytes() == b"\xff\x00\r\n"


def test_a_killed_writer_is_replaced_and_goes_on(logs):
    say(logs, "web", "before\n")
    logs.catch_up("web")
    logs._writer.kill()
    logs._writer.wait()
    say(logs, "web", "while nobody reads\n")
    assert logs.catch_up("web").read_text() == "before\nwhile nobody reads\n"


def test_words_that_follow_a_crash_of_up_are_kept(tmp_path):
    argv = [sys.executable, "-c", CRASH, str(tmp_path)]
    up = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE)
    assert up.stdout and up.stdout.readline() == b"started\n"
    up.send_signal(signal.SIGKILL)
    up.communicate()
    wait_for_text(tmp_path / "web.log", "the first\nthe last\n")


def wait_for_text(path: Path, text: str) -> None:
    deadline = time.monotonic() + 20
    while not path.exists() or path.read_text() != text:
        assert time.monotonic() < deadline, path.exists() and path.read_text()
        time.sleep(0.02)
