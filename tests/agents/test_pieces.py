"""Output that is too large for one answer of a host: told of, then read in pieces."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from agents.contracts import AgentError
from agents.jobs import job, large_files, spool
from tests.agents.conftest import sh
from tests.agents.local_shell import LocalShell

LARGE = (16 << 20) + 5


def big(shell, here, script: str, *outputs: str) -> job.Fetched:
    tool = sh(script, outputs=outputs)
    job.start_job(shell, here, tool)
    polled = job.poll(shell, here, 30, 0, outputs)
    assert polled.fetched
    return polled.fetched


def test_a_large_file_is_read_in_pieces(shell, here):
    fetched = big(shell, here, f"head -c {LARGE} /dev/zero; echo end; echo few >a", "a", "none")
    assert fetched.files == {"stderr": b"", "a": b"few\n"}
    (one,) = fetched.waiting
    assert one == spool.Waiting("stdout", "stdout", LARGE + 4)
    assert one.piece_count == 2
    found = [large_files.read_piece(shell, here, one, number) for number in range(one.piece_count)]
    assert b"".join(found) == bytes(LARGE) + b"end\n"


def test_many_files_come_in_one_answer_as_far_as_they_fit(shell, here):
    names = tuple(f"log.{number}" for number in range(6))
    fetched = big(
        shell, here, f"for n in {' '.join(names)}; do head -c 16000000 /dev/zero >$n; done", *names
    )
    assert [one.path for one in fetched.waiting] == ["work/log.4", "work/log.5"]
    assert {len(fetched.files[name]) for name in names[:4]} == {16000000}
    assert len(large_files.read_piece(shell, here, fetched.waiting[0], 0)) == 16000000


def test_a_host_without_gzip_sends_them_as_they_are(base, tmp_path):
    folder = tmp_path / "few"
    folder.mkdir()
    for name in ("sh", "tar", "sleep", "mkdir", "ls", "rm", "id", "dd", "date", "sync", "head"):
        (folder / name).symlink_to(shutil.which(name) or name)
    few = LocalShell({"PATH": str(folder)})
    here = job.Spool("attempt-1", root=os.geteuid() == 0, base=str(base))
    (one,) = big(few, here, f"head -c {LARGE} /dev/zero").waiting
    assert large_files.read_piece(few, here, one, 1) == bytes(5)


def test_a_large_link_is_no_plain_file(shell, here):
    fetched = big(shell, here, f"head -c {LARGE} /dev/zero >a", "a")
    (one,) = fetched.waiting
    large = Path(here.base, f"benchlab-{os.geteuid()}", here.name, "work", "a")
    large.rename(large.with_name("b"))
    large.symlink_to("b")
    with pytest.raises(AgentError, match="not a plain file"):
        large_files.read_piece(shell, here, one, 0)


@pytest.mark.parametrize("size", [LARGE - 1, LARGE + 1])
def test_a_piece_of_another_length_is_refused(shell, here, size):
    (one,) = big(shell, here, f"head -c {LARGE} /dev/zero").waiting
    with pytest.raises(AgentError, match="arrived incomplete"):
        large_files.read_piece(shell, here, dataclasses.replace(one, size=size), 1)


@pytest.mark.parametrize(
    "told", ["17 /etc/passwd", "x stdout", "-1 stdout", "1", "17 work/unasked"]
)
def test_only_files_that_were_asked_for_are_waited_for(told):
    with pytest.raises(AgentError, match="which was not requested"):
        spool.told_of(told.encode(), {"stdout": "stdout"})
