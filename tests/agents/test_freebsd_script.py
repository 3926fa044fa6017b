"""The script that reads FreeBSD's facts, over stub commands: what its programs print is recorded, not proven here."""

from __future__ import annotations

import pytest

from agents.contracts import AgentError, Need, Ran, Reason
from agents.facts import freebsd, reading
from tests.agents import freebsd_host as fb
from tests.agents.conftest import MORE_SHELLS, shell_as
from tests.agents.freebsd_host import DISK, ends, printed, read, sections


class Host:
    """Answers the first script as a host that is no Linux, the second with a reading."""

    def __init__(self, system: str) -> None:
        self.system, self.asked = system, 0

    def run(self, argv, *, stdin=b"", root=False, timeout_s=60.0) -> Ran:
        self.asked += 1
        if self.asked == 1:
            said = printed({"system": self.system})
        else:
            assert argv[2] == freebsd.SCRIPT and argv[5:] == ("fio --version",)
            said = printed(sections(version__fio="fio-3.38"))
        return Ran(tuple(argv), 0, said, b"")


def test_a_freebsd_host_is_asked_in_its_own_words():
    host = Host("FreeBSD")
    assert reading.read_facts(host, [Need("fio")]).tools == {"fio": "fio-3.38"}
    assert host.asked == 2


@pytest.mark.parametrize("system", ["OpenBSD", "Linux", ""])
def test_another_system_is_named(system):
    with pytest.raises(AgentError, match=system or "of no name") as raised:
        reading.read_facts(Host(system))
    assert raised.value.reason is Reason.BAD_FACTS


# The script, over stub commands: what FreeBSD's programs print is recorded, that they print it is not proven here.

STUBS = {
    "id": "echo 0",
    "uname": "echo FreeBSD",
    "sysctl": 'case "$*" in -nx*) exit 1 ;; -n*) cat mesh ;; *) cat sysctl ;; esac',
    "stat": "echo 1403796312",
    "mount": "cat mounts",
    "swapinfo": "cat swaps",
    "kldstat": "true",
    "zpool": 'case "$*" in *-P*) exit 2 ;; *) cat zpool ;; esac',
    "dd": """
        echo "$*" >>asked
        for word; do case $word in bs=*) bs=${word#*=} ;; count=*) count=${word#*=} ;; esac; done
        exec /bin/dd if=/dev/zero bs=$bs count=$count""",
    "fstyp": 'echo "fstyp: $2: filesystem not recognized" >&2; exit 1',
    "fio": "echo fio-3.38",
}


@pytest.mark.parametrize("name", MORE_SHELLS)
def test_the_script_over_stub_commands(name, tmp_path):
    shell = shell_as(name, tmp_path / "bin")
    for program, body in STUBS.items():
        path = tmp_path / "bin" / program
        path.write_text(f'#!/bin/sh\ncd "{tmp_path}"\n{body}\n')
        path.chmod(0o755)
    made = fb.article_001().disk("da0", 1474560).disk("cd0", 0)
    recorded = {"mesh": made.xml(), "sysctl": fb.SYSCTL, "mounts": fb.MOUNTS}
    for file, said in (recorded | {"swaps": fb.SWAPS, "zpool": fb.ZROOT}).items():
        (tmp_path / file).write_text(said)
    argv = freebsd.facts_command([Need("fio"), Need("nothing-there")], "abc")
    ran = shell.run((str(tmp_path / "bin" / "sh"), *argv[1:]))
    assert ran.stderr == b""
    facts = freebsd.parse_freebsd_facts(ran.stdout)
    assert facts == read(made, head__da0=ends(size=1474560)[0], tail__da0=ends(size=1474560)[1],
                         version__fio="fio-3.38")  # fmt: skip
    asked = (tmp_path / "asked").read_text()
    assert "of=" not in asked and "if=/dev/gpt" not in asked and "if=/dev/cd0" not in asked
    assert f"if=/dev/mfid1 bs=65536 skip={(DISK - 524288) // 65536} count=8" in asked
    assert "if=/dev/da0 bs=16384 skip=58 count=32" in asked


def test_the_script_only_looks():
    words = " ".join(
        line for line in freebsd.SCRIPT.splitlines() if line.strip()[:1] != "#"
    ).split()
    assert not {"rm", "mv", "umount", "tee", "kill", "kldload", "gpart", "newfs"} & set(words)
    assert not [word for word in words if word.startswith("of=")]
    assert {w for w in words if w.startswith(">")} <= {">/dev/null", ">&3"} | {">"}
