"""The exclusive open before a layout's first write, under each host's shell: what cannot be opened is refused."""

from __future__ import annotations

import os
import subprocess

import pytest

from agents.contracts import Claim, GuardError
from agents.safety.apply import prove_unused
from tests.agents.conftest import SHELLS, shell_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root opens disks")


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    made = shell_as(request.param, tmp_path / "sh")
    sleep = tmp_path / "sh" / "sleep"
    sleep.write_text("#!/bin/sh\n")  # what is busy is tried again ten times
    sleep.chmod(0o755)
    return made


def claim(node: object) -> Claim:
    return Claim(identity=f"serial:{node}", node=str(node), size=1 << 20, model="")


@pytest.mark.parametrize("family", ["debian", "freebsd"])
def test_a_disk_that_nobody_uses_is_opened_and_stays_as_it_is(shell, tmp_path, family):
    disk = tmp_path / "a disk"
    disk.write_bytes(bytes(1 << 20))
    subprocess.run(["mkfs.ext4", "-qF", str(disk)], check=True)
    before = disk.read_bytes()
    prove_unused(shell, [claim(disk)], family)
    prove_unused(shell, [], family)
    assert disk.read_bytes() == before


@pytest.mark.parametrize("family", ["debian", "freebsd"])
def test_each_that_cannot_be_opened_is_named(shell, tmp_path, family):
    disk = tmp_path / "sound"
    disk.write_bytes(bytes(1 << 20))
    missing = tmp_path / "none" / "$(touch x)"
    with pytest.raises(GuardError) as raised:
        prove_unused(shell, [claim(missing), claim(disk), claim(tmp_path)], family)
    said = str(raised.value)
    assert said.startswith("refused before anything was written: ")
    assert f"{missing} could not be opened exclusively: " in said
    assert f"{tmp_path} could not be opened exclusively: " in said
    assert f"{disk} " not in said


def test_a_disk_with_an_exclusive_user_is_in_use(shell, tmp_path):
    """By the kernel's words, as this wipefs prints them."""
    wipefs = tmp_path / "sh" / "wipefs"
    wipefs.write_text(
        "#!/bin/sh\nfor node; do :; done\n"
        'echo "wipefs: error: $node: probing initialization failed: Device or resource busy" >&2\nexit 1\n'
    )
    wipefs.chmod(0o755)
    with pytest.raises(GuardError, match=r"/dev/sdx is in use by the kernel \(EBUSY"):
        prove_unused(shell, [claim("/dev/sdx")], "debian")


def test_without_wipefs_nothing_is_proven(shell, tmp_path):
    wipefs = tmp_path / "sh" / "wipefs"
    wipefs.write_text("#!/bin/sh\necho wipefs: not found >&2\nexit 127\n")
    wipefs.chmod(0o755)
    with pytest.raises(GuardError, match="could not be opened exclusively: wipefs: not found"):
        prove_unused(shell, [claim("/dev/sdx")], "debian")
