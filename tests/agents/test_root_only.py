"""A program that root will run on a person's word: refused unless only root can change it, under each host's shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.contracts import AgentError, Reason
from agents.safety.root_only import resolved
from tests.agents.conftest import SHELLS, shell_as
from tests.agents.local_shell import LocalShell
from tests.programs import roots_directory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
NOBODY = 65534


@pytest.fixture
def top() -> Iterator[Path]:
    with roots_directory() as made:
        yield made


@pytest.fixture
def program(top) -> Path:
    made = top / "opt" / "x y" / "bin" / "pg_test_fsync"
    made.parent.mkdir(parents=True)
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    return made


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    return shell_as(request.param, tmp_path / "sh")


def doubt(shell: LocalShell, path: str) -> str:
    """Reason why it is refused; "" where it may run."""
    try:
        resolved(shell, path)
    except AgentError as error:
        assert error.reason is Reason.BAD_OPTIONS
        return str(error)
    return ""


def test_one_that_is_roots_all_the_way_up_may_run(shell, program):
    assert resolved(shell, str(program)) == str(program)
    assert resolved(shell, f"{program.parent}/../bin//./{program.name}") == str(program)


def test_the_system_s_own_may_run(shell):
    assert resolved(shell, "/bin/true") == os.path.realpath("/bin/true")


def test_a_name_is_searched_for_in_path_and_checked_there(shell, program):
    ours = LocalShell({"PATH": f"{program.parent}:{shell.env['PATH']}"})
    assert resolved(ours, program.name) == str(program)
    program.chmod(0o777)
    assert "is writable by users other than root" in doubt(ours, program.name)


@pytest.mark.parametrize("up", range(4))
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: os.chown(path, NOBODY, 0), "belongs to user 65534"),
        (lambda path: path.chmod(0o775), "is writable by users other than root"),
        (lambda path: path.chmod(0o757), "is writable by users other than root"),
        (lambda path: path.chmod(0o1777), "is writable by users other than root"),
    ],
    ids=["owner", "group", "world", "sticky"],
)
def test_what_others_may_change_is_refused_wherever_it_is(shell, program, up, spoil, says):
    """The file itself, and each directory above it."""
    path = [program, *program.parents][up]
    spoil(path)
    said = doubt(shell, str(program))
    assert f"{path} {says}" in said and "must belong to root" in said


TARGETS = ("{program}", "opt/x y/bin/{program.name}", "./opt/../opt/x y/bin/{program.name}")


@pytest.mark.parametrize("target", TARGETS)
def test_roots_own_link_is_resolved(shell, program, top, target):
    (top / "link").symlink_to(target.format(program=program))
    (top / "again").symlink_to(top / "link")
    assert resolved(shell, str(top / "again")) == str(program)
    program.chmod(0o777)
    assert f"{program} is writable by users" in doubt(shell, str(top / "again"))


def test_a_linked_directory_is_resolved(shell, program, top):
    (top / "current").symlink_to(program.parent)
    assert resolved(shell, str(top / "current" / program.name)) == str(program)


def test_a_users_link_to_a_sound_program_is_refused(shell, program, top):
    """Its owner turns it to another one at any moment, and even now chooses which program of root's runs."""
    link = top / "link"
    link.symlink_to(program)
    os.chown(link, NOBODY, 0, follow_symlinks=False)
    assert f"{link} belongs to user {NOBODY}" in doubt(shell, str(link))


def test_roots_link_in_a_users_directory_is_refused(shell, program, top):
    home = top / "home"
    home.mkdir()
    (home / "link").symlink_to(program)
    os.chown(home, NOBODY, 0)
    assert f"{home} belongs to user {NOBODY}" in doubt(shell, str(home / "link"))


def test_links_that_go_in_a_circle_are_refused(shell, top):
    (top / "a").symlink_to("b")
    (top / "b").symlink_to("a")
    assert "too many symbolic links" in doubt(shell, str(top / "a"))


def test_what_is_no_program_is_refused(shell, program, top):
    assert "does not exist" in doubt(shell, str(top / "none"))
    assert "is not an executable file" in doubt(shell, str(program.parent))
    assert "is not a directory" in doubt(shell, f"{program}/x")
    program.chmod(0o644)
    assert "is not an executable file" in doubt(shell, str(program))
    assert resolved(shell, "no-such-program") == ""


@pytest.mark.parametrize("name", ["a\nb", "$(touch x)", "-n", "; id", "'", "a\n", "*"])
def test_a_name_is_a_name(shell, program, top, name):
    odd = program.with_name(name)
    program.rename(odd)
    (top / "link").symlink_to(odd)
    assert resolved(shell, str(odd)) == str(odd)
    assert resolved(shell, str(top / "link")) == str(odd)
    odd.chmod(0o777)
    assert "is writable by users other than root" in doubt(shell, str(odd))


class Mounting(LocalShell):
    """Runs each command where a tmpfs is mounted in a namespace of its own."""

    def run(self, argv, **given):
        place, options = self.env["MOUNTED"], self.env["OPTIONS"]
        mounts = (
            f"mount -t tmpfs -o mode=755,{options} none '{place}' && cp /bin/true '{place}/tool'"
        )
        return super().run(("unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh", *argv), **given)  # fmt: skip


def test_what_a_user_may_have_mounted_is_refused(shell, top):
    """FUSE, removable media and "user" in fstab are nosuid; their file system may say that all of it is root's."""
    place = top / "a b"
    place.mkdir()
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    ours = Mounting({**shell.env, "MOUNTED": str(place), "OPTIONS": "noatime"})
    assert resolved(ours, f"{place}/tool") == f"{place}/tool"
    theirs = Mounting({**shell.env, "MOUNTED": str(place), "OPTIONS": "nosuid"})
    assert f"{place} is mounted nosuid" in doubt(theirs, f"{place}/tool")
