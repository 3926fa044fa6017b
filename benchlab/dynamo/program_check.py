# SPDX-License-Identifier: Apache-2.0
"""Checks of dynamo's program: of an uploaded one without running it, and of one on a host. No rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from agents.contracts import Shell
from agents.dynamo import hostfacts

VERSION = re.compile(rb"(?<![\d.])(1\.1\.0(?:-rc\d)?|20\d\d\.\d\d\.\d\d)(?![\d.])")
# dynamo prints it; 1.1.0 alone is in dpkg, too
OWN_MESSAGE = b"Unknown purpose found in message"
LIBAIO, OLD_AIO = b"libaio.so.1", (b"aio_suspend", b"librt.so")
INSPECT_SCRIPT = (
    files("agents.hostside").joinpath("root_only.sh").read_text()
    + r"""
path=$(command -v -- "$1") && [ -f "$path" ] || { echo absent=yes; exit 0; }
echo "path=$path"
[ -x "$path" ] || echo "closed=yes"
echo "size=$(wc -c <"$path")"
echo "sha256=$(sha256sum <"$path" | cut -d' ' -f1)"
pattern='1\.1\.0(-rc[0-9])?|20[0-9][0-9]\.[0-9][0-9]\.[0-9][0-9]'
for word in $(grep -aoE "$pattern" "$path" | sort -u); do echo "version=$word"; done
! grep -aq 'libaio\.so\.1' "$path" || echo libaio=needed
! grep -aqE 'aio_suspend|librt\.so' "$path" || echo posix=yes
for place in /lib /usr/lib; do
  [ ! -e "$place/x86_64-linux-gnu/libaio.so.1t64" ] || echo renamed=yes
done
# ldd may run what it looks at
may_run "$path" || { echo "doubt=$doubt"; exit 0; }
LC_ALL=C ldd "$real" 2>&1 | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/lacks=\1/p'
"""
)


class Refused(Exception):
    """It is no dynamo that can be driven; the text says why and what to take."""


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """A program on a host. `troubles`: why it cannot be used; [] is right."""

    path: str
    size: int
    sha256: str
    version: str
    troubles: tuple[str, ...]


def parse_version(raw: bytes) -> str:
    """Raises Refused for what is no dynamo 1.1.0 for Linux."""
    if not raw.startswith(b"\x7fELF"):
        raise Refused(
            "That is not a Linux program (ELF). Use the Linux build of dynamo, not Iometer.exe or an archive."
        )
    versions = sorted({version[1].decode() for version in VERSION.finditer(raw)})
    version = identify_version(versions, LIBAIO in raw, any(word in raw for word in OLD_AIO))
    if OWN_MESSAGE not in raw:
        raise Refused("That is another program: it has none of dynamo's messages.")
    return version


def identify_version(versions: list[str], libaio: bool, posix: bool) -> str:
    """The version. 1.1.0 and its first release candidate say the same: only their libraries tell them apart."""
    if any("rc" in word for word in versions) or ("1.1.0" in versions and posix and not libaio):
        raise Refused(
            "That is 1.1.0-rc1, which works through the page cache: its figures are not the disk's. Use 1.1.0 of 2014."
        )
    if "1.1.0" in versions:
        return "1.1.0"
    if versions:
        raise Refused(f"That is {', '.join(versions)}: only 1.1.0 is supported.")
    raise Refused("It does not identify itself as dynamo 1.1.0.")


def report_from_json(result: Mapping[str, Any]) -> ProgramReport:
    """Rebuild the report from the result of a host task."""
    return ProgramReport(**{**result, "troubles": tuple(result["troubles"])})


def inspect_program(shell: Shell, path: str) -> ProgramReport:
    """Inspect a program on a host; only sha256sum, grep and ldd are run. Raises AgentError."""
    ran = shell.run(("sh", "-c", INSPECT_SCRIPT, "look", path))
    pairs = [
        line.partition("=")[::2] for line in ran.stdout.decode("utf-8", "replace").splitlines()
    ]
    reported = dict(pairs)
    if "absent" in reported or "path" not in reported:
        return ProgramReport(path, 0, "", "", (f"there is no program {path}",))
    lacks = [value for key, value in pairs if key == "lacks"]
    # the console links it (agents/dynamo/process.py)
    if "renamed" in reported:
        lacks = [name for name in lacks if name != hostfacts.LIBAIO]
    troubles = [f"it lacks {name}: {hostfacts.INSTALL_LIBAIO}" for name in lacks]
    if reported.get("doubt") and "closed" not in reported:
        troubles.append(f"root would run it, but {reported['doubt']}")
    if "closed" in reported:
        troubles.append("it cannot be executed: chmod 755")
    version = ""
    try:
        version = identify_version(
            [v for k, v in pairs if k == "version"], "libaio" in reported, "posix" in reported
        )
    except Refused as error:
        troubles.append(str(error))
    size = int(reported["size"]) if reported.get("size", "").strip().isdigit() else 0
    return ProgramReport(
        reported["path"], size, reported.get("sha256", ""), version, tuple(troubles)
    )
