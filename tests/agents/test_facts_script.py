"""The script that reads facts: run under several shells, without sudo, and again while the host changes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents.contracts import AgentError, Need, Ran, Reason
from agents.facts import reading, stacks
from agents.facts.sections import split_sections
from tests.agents.linux_host import output


class Answers:
    """A shell without sudo: root=True raises or prints sudo's refusal."""

    def __init__(self, says: bytes | None) -> None:
        self.says = says
        self.asked: list[Any] = []

    def run(self, argv, *, stdin=b"", root=False, timeout_s=60.0) -> Ran:
        self.asked.append(root)
        if root and self.says is None:
            raise AgentError("no sudo", Reason.NO_SUDO)
        return Ran(tuple(argv), 0, self.says or b"" if root else output(uid="1000"), b"")


@pytest.mark.parametrize("says", [None, b"sudo: a password is required\n"])
def test_without_sudo_it_reads_what_it_can(says):
    shell = Answers(says)
    facts = reading.read_facts(shell)
    assert shell.asked == [True, False] and not facts.sudo and facts.unknown


def test_each_program_is_asked_once():
    argv = reading.linux_command(
        [Need("fio"), Need("fio"), Need("x", version_argv=("x", "-V"))], "n"
    )
    assert argv[3:] == ("facts", "n", "fio --version", "x -V")


SHELLS = [["dash"], ["bash"], ["busybox", "sh"], ["busybox", "ash"]]


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_script_runs_under(shell):
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    asked = reading.linux_command([Need("sh", version_argv=("echo", "1.2 *"))], "abc")
    done = subprocess.run([*shell, *asked[1:]], capture_output=True, check=True)
    assert done.stderr == b""
    facts = reading.parse_linux_facts(done.stdout)
    assert facts.kernel and facts.cpus and facts.memory and facts.boot_id and facts.mounts
    assert facts.tools == {"sh": "1.2 *"}


POOL = """  pool: bl1
 state: {state}
config:

\tNAME           STATE     READ WRITE CKSUM
\tbl1            {state}       0     0     0
\t  mirror-0     {state}       0     0     0
\t    {disk}  ONLINE       0     0     0
\t    {other}  {of_other}       0 92.2K     0
"""


@pytest.mark.parametrize(
    ("state", "other", "of_other", "waits"),
    [
        ("ONLINE", "", "ONLINE", False),
        ("ONLINE", "/dev/null", "ONLINE", True),  # no block device: pulled out, and nobody noticed
        ("DEGRADED", "/dev/null", "UNAVAIL", False),
        ("DEGRADED", "/dev/null", "REMOVED", False),
        ("SUSPENDED", "", "ONLINE", True),
        ("UNAVAIL", "/dev/null", "UNAVAIL", True),
    ],
)
@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_zvols_of_a_pool_that_waits_for_a_disk_are_not_read(
    shell, state, other, of_other, waits, tmp_path
):
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    disk = next((str(path) for path in Path("/dev").iterdir() if path.is_block_device()), "")
    if not disk:
        pytest.skip("there is no block device here")
    said = POOL.format(state=state, disk=disk, other=other or disk, of_other=of_other)
    (tmp_path / "zpool").write_text(f"#!/bin/sh\ncat <<'EOF'\n{said}EOF\n")
    (tmp_path / "zpool").chmod(0o755)
    functions = re.findall(
        r"^(?:there|waits_for_disk)\(\) \{.*?\}$", reading.FACTS_SCRIPT, re.S | re.M
    )
    asked = "\n".join([*functions, 'if waits_for_disk "$1"; then echo yes; else echo no; fi'])
    for place, expected in ((tmp_path, "yes" if waits else "no"), (tmp_path / "zd*", "no")):
        done = subprocess.run(
            [*shell, "-c", asked, "facts", str(place)],
            capture_output=True, text=True, check=True,
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        )  # fmt: skip
        assert (done.stdout, done.stderr) == (expected + "\n", "")


def test_the_script_only_looks():
    """Words that change something have no business in it, and it writes to no file."""
    code = [line.partition("#")[0] if line.lstrip().startswith("#") else line
            for line in reading.FACTS_SCRIPT.splitlines()]  # fmt: skip
    words = " ".join(code).replace(" dd if=", " ").replace("/", " ").split()
    assert "of=" not in " ".join(words)
    changing = {"rm", "mv", "dd", "mount", "umount", "tee", "kill", "modprobe", "-a", "--all"}
    assert not changing & set(words)
    written = {word for line in code for word in line.split() if ">" in word and "&" not in word}
    assert written <= {">/dev/null", "2>/dev/null", "->"}  # ls prints that arrow


def test_facts_that_do_not_agree_with_themselves_are_read_again():
    """Right after a boot LVM's volumes appear while the host is looked at."""
    tree = "+/sys/class/block/sda/holders/dm-0"
    looks = [output(tree=tree), output(tree=tree), output()]
    facts = reading.read_consistent_facts(lambda: looks.pop(0))
    assert looks == [] and not reading.unlisted_holders(facts)


def test_it_is_not_looked_at_for_ever():
    looks: list[bytes] = []

    def look() -> bytes:
        looks.append(output(tree="+/sys/class/block/sda/holders/dm-0"))
        return looks[-1]

    found = reading.read_consistent_facts(look)
    assert reading.unlisted_holders(found) == {"dm-0"} and len(looks) == reading.MAX_READINGS


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_program_with_a_disk_open_for_writing_is_seen_and_a_reader_is_not(shell, far):
    """On a loop device that nothing is attached to; and as where a file system may be far away."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    try:
        opened = [os.open("/dev/loop0", os.O_RDWR), os.open("/dev/loop0", os.O_RDONLY)]
    except OSError as error:
        pytest.skip(f"no loop device may be opened here: {error}")
    words = [
        w.replace("held= far=", f"held= far={'yes' if far else ''}")
        for w in reading.linux_command([], "n")
    ]
    looked = subprocess.run([*shell, *words[1:]], capture_output=True, check=True)
    places = [f"/proc/{os.getpid()}/fd/{fd} " for fd in opened]
    for fd in opened:
        os.close(fd)
    found = split_sections(looked.stdout)
    assert [place in found["openers"].stdout.decode() for place in places] == [True, False]
    named = Path("/proc/self/comm").read_text().strip()
    assert f"{named}[{os.getpid()}]" in stacks.parse_openers(found)["7:0"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look at what is open")
@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_log_of_what_a_container_mounted_is_looked_for(shell, tmp_path):
    """Its name may be another disk's here."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    log, mounts = tmp_path / "log", tmp_path / "mountinfo"
    log.touch()
    mounts.write_text(f"30 27 8:99 / /x rw - xfs /dev/sdz rw,logdev={log}\n" * 2)
    words = [
        word.replace("\nelsewhere=\n", f"\nelsewhere={mounts}\n").replace(
            "/sys/module/xfs", str(log)
        )
        for word in reading.linux_command([], "n")
    ]
    looked = subprocess.run([*shell, *words[1:]], capture_output=True, check=True)
    found = split_sections(looked.stdout)["backing"].stdout.decode().splitlines()
    assert [line.endswith(f" {log}") for line in found].count(True) == 1
