# SPDX-License-Identifier: Apache-2.0
"""Uploaded programs of dynamo: kept, found, and deleted unless a run needs one.

One is checked without running it; of one on a host, what can be seen there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Q

from agents.contracts import Shell
from agents.dynamo import hostfacts
from benchlab.campaigns.models import Campaign, Workload
from benchlab.dynamo.models import Binary
from benchlab.team.models import Team

# bytes; the real one has less than one MiB
MAX_PROGRAM_BYTES = 32 * 2**20


class InUse(Exception):
    """It cannot be deleted; the text names who needs it."""


def store_program(
    team: Team, user: AbstractBaseUser | AnonymousUser, name: str, raw: bytes
) -> tuple[Binary, bool]:
    """The row, and whether it is new. Raises Refused."""
    version, digest = parse_version(raw), hashlib.sha256(raw).hexdigest()
    return Binary.objects.get_or_create(
        team=team,
        sha256=digest,
        defaults={
            "name": name[:200] or "dynamo",
            "version": version,
            "size": len(raw),
            "content": raw,
            "uploaded_by_id": user.pk,
        },
    )


def store_upload(
    team: Team, user: AbstractBaseUser | AnonymousUser, upload: Any
) -> tuple[Binary, bool]:
    """`keep` an uploaded file, of which not more is read than a dynamo can have. Raises Refused."""
    if upload.size > MAX_PROGRAM_BYTES:
        raise Refused(f"That has more than {MAX_PROGRAM_BYTES >> 20} MiB: it is not dynamo.")
    return store_program(team, user, upload.name or "", upload.read())


def program_users(row: Binary) -> list[str]:
    """Workloads and campaigns of its team that name it, in words; [] when nobody does."""
    names_program = Q(options__binary=row.option) | Q(sweep__binary__contains=[row.option])
    loads = Workload.even_deleted.filter(names_program, team=row.team_id, tool="dynamo")
    campaigns = Campaign.even_deleted.filter(team=row.team_id, runs__options__binary=row.option)
    return [
        *(f"workload {load.name}" for load in loads.order_by("name", "pk")),
        *(f"campaign {campaign.name}" for campaign in campaigns.distinct().order_by("name", "pk")),
    ]


def delete_program(row: Binary) -> None:
    """Raises InUse: a run whose program is gone could not be repeated."""
    if uses := program_users(row):
        more = f" and {len(uses) - 5} more" if len(uses) > 5 else ""
        raise InUse(
            f"{row.name} ({row.option[:19]}…) is needed by {', '.join(uses[:5])}{more}: their runs name it by its "
            "SHA-256 and could not be repeated without it."
        )
    row.delete()


def listen_address() -> str:
    """ "address:port" at which dynamos may log in by themselves; "" where the listener is off."""
    address: str = settings.BENCHLAB_DYNAMO_LISTEN if settings.BENCHLAB_DYNAMO_ALLOW else ""
    return address


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
