"""A program that root will run on a person's word: refused unless only root can change it, under each host's shell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.safety.root_only import doubt
from tests.agents.conftest import SHELLS, shell_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
NOBODY = 65534


@pytest.fixture
def program(tmp_path) -> Path:
    """Below pytest's own folder, which is root's alone, in /tmp, which is sticky."""
    made = tmp_path / "opt" / "x y" / "bin" / "pg_test_fsync"
    made.parent.mkdir(parents=True)
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    return made


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    return shell_as(request.param, tmp_path / "sh")


def test_one_that_is_roots_all_the_way_up_may_run(shell, program):
    assert doubt(shell, str(program)) == ""


def test_the_system_s_own_may_run(shell):
    assert doubt(shell, "/bin/sh") == ""


@pytest.mark.parametrize("up", range(4))
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: os.chown(path, NOBODY, 0), "belongs to user 65534"),
        (lambda path: path.chmod(0o775), "is writable by users other than root"),
        (lambda path: path.chmod(0o757), "is writable by users other than root"),
    ],
    ids=["owner", "group", "world"],
)
def test_what_others_may_change_is_refused_wherever_it_is(shell, program, up, spoil, says):
    """The file itself, and each directory above it."""
    path = [program, *program.parents][up]
    spoil(path)
    said = doubt(shell, str(program))
    assert f"{path} {says}" in said and "must belong to root" in said


def test_a_link_is_followed(shell, program, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(program)
    assert doubt(shell, str(link)) == ""
    program.chmod(0o777)
    assert f"{program} is writable by users" in doubt(shell, str(link))


def test_what_is_no_program_is_refused(shell, program, tmp_path):
    assert "does not exist" in doubt(shell, str(tmp_path / "none"))
    assert "is not an executable file" in doubt(shell, str(program.parent))
    program.chmod(0o644)
    assert "is not an executable file" in doubt(shell, str(program))


@pytest.mark.parametrize("name", ["a\nb", "$(touch x)", "-n", "; id", "'"])
def test_a_name_is_a_name(shell, program, name):
    odd = program.with_name(name)
    program.rename(odd)
    assert doubt(shell, str(odd)) == ""
    odd.chmod(0o777)
    assert "is writable by users other than root" in doubt(shell, str(odd))
