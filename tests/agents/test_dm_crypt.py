"""dm-crypt's key is seen by nobody, and its header is ours by its UUID alone: another's LUKS stays refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agents.facts.health import Health
from agents.layers import dm_crypt
from agents.safety.guard import refusals
from agents.uuids import uuid_of
from tests.agents.layer_cases import target_of
from tests.agents.made_up import LAYOUT, claim, disk, host, spare, wiping

TELLING = """#!/bin/sh
cat >"$OUT/stdin.$1"
cp "$OUT/stdin.$1" "$OUT.key"
cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -acF -f "$OUT.key" >"$OUT/everywhere.$1"
readlink /proc/$PPID/fd/* /proc/self/fd/* >"$OUT/open.$1"
echo "$@" >"$OUT/argv.$1"
env >"$OUT/env.$1"
tr '\\0' ' ' </proc/$PPID/cmdline >"$OUT/parent.$1"
exit ${FAILS:-0}
"""
WORDS = (
    "/dev/sdb",
    "bl17-crypt",
    "UUID",
    "32768",
    "aes-xts-plain64",
    "512",
    "4096",
    "--allow-discards",
)


def built(folder: Path, **more: str) -> tuple[int, dict[str, str]]:
    """Exit code, and what a program named cryptsetup was told by the layer's own script."""
    folder.mkdir()
    program = folder / "cryptsetup"
    program.write_text(TELLING)
    program.chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "OUT": str(folder), **more}
    done = subprocess.run(
        ["sh", "-c", dm_crypt.LUKS, "luks", *WORDS], env=env, capture_output=True, text=True
    )
    told = {path.name: path.read_text() for path in folder.iterdir() if path != program}
    return done.returncode, {**told, "said": done.stdout + done.stderr}


def test_the_key_is_new_each_time_and_in_no_word(tmp_path):
    keys = set()
    for number in range(3):
        code, told = built(tmp_path / str(number))
        key = told["stdin.luksFormat"]
        assert code == 0 and told["stdin.open"] == key and len(set(key.strip())) > 4
        assert len(key) == 65 and int(key, 16)
        keys.add(key)
        shown = [text for name, text in told.items() if not name.startswith("stdin")]
        assert len(shown) == 11 and not any(key.strip() in text for text in shown)
        assert told["everywhere.luksFormat"] == told["everywhere.open"] == "0\n"
        assert told["argv.open"].split()[-5:] == ["--allow-discards", "--key-file", "-", *WORDS[:2]]
    assert len(keys) == 3


def test_a_variable_that_was_there_before_does_not_hand_the_key_on(tmp_path):
    """A shell hands on what was exported before, whatever is put into it: an administrator's sshd may set any name."""
    code, told = built(tmp_path / "exported", key="x")
    assert code == 0 and told["everywhere.luksFormat"] == told["everywhere.open"] == "0\n"
    assert told["stdin.open"].strip() not in told["env.luksFormat"] + told["env.open"]


def test_what_could_not_be_formatted_is_not_opened(tmp_path):
    code, told = built(tmp_path / "failing", FAILS="1")
    assert code == 1 and "argv.open" not in told


def luks(uuid: str):
    return disk("sdb", signatures=[{"type": "crypto_LUKS", "uuid": uuid}])


@pytest.mark.parametrize(
    ("uuid", "refused"),
    [
        (uuid_of(LAYOUT, "crypt"), False),
        (uuid_of("bl170", "crypt"), True),
        (uuid_of("bl1", "crypt"), True),
        ("0b3cd3a9-3a52-4b39-92ea-35d6ad22cf0c", True),
        ("", True),
    ],
)
def test_a_header_is_ours_by_its_uuid_alone(uuid, refused):
    mine = luks(uuid)
    found = refusals(wiping(mine), host(mine), spare(mine), LAYOUT)
    assert bool(found) == refused
    assert not refused or "crypto_LUKS" in found[0]


@pytest.mark.parametrize("name", ["vault", "bl170-crypt", "luks-bl17"])
def test_another_s_mapping_is_refused(name):
    mine = disk("sdb", holders=["dm-0"])
    mapped = disk(
        "dm-0", type="crypt", path=f"/dev/mapper/{name}", majmin="253:0", serial="", parents=["sdb"]
    )
    assert refusals(wiping(mine), host(mine, mapped), spare(mine), LAYOUT)


def test_a_mapping_that_went_ails():
    target = target_of({"devices": {"data": ["sdb"]}}, host(disk("sdb")))
    assert target.devices["data"] == (claim(disk("sdb")),)
    options = dm_crypt.Options()
    assert dm_crypt.health_faults(options, target, Health()) == [
        "/dev/mapper/bl17-crypt is not there"
    ]
    there = Health(mapped={"bl17-crypt": ("0", "2064384", "crypt")})
    assert dm_crypt.health_faults(options, target, there) == []
