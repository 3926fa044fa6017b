"""`manage.py` as a normal user of this machine who may use sudo without a password, and who is gone afterwards.

Needs root. The user exists in a mount namespace only: /etc/passwd and its like are covered there by copies with one
line more, and so are the ways to our Python and sources where others may not go (below /root, for one).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from benchlab.up.bootstrap import ROOT

NAME, UID = "benchlab-eve", 64321
FILES = {
    "/etc/passwd": f"{NAME}:x:{UID}:{UID}::{{home}}:/bin/sh\n",
    "/etc/group": f"{NAME}:x:{UID}:\n",
    "/etc/shadow": f"{NAME}:*:20000:0:99999:7:::\n",
}
NEEDED = ("sudo", "unshare", "setpriv", "mount")


def lacking() -> str:
    """Reason why it cannot be here; "" where it can."""
    if os.geteuid() != 0:
        return "only root can make a user for a test"
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "no mount namespace may be made here"


class Eve:
    """Her home, and commands of hers. All that she and her sudo start is found by its mount namespace."""

    def __init__(self, home: Path) -> None:
        self.home = home
        os.chown(home, UID, UID)
        home.chmod(0o711)
        self.place = home / ".cover"
        self.place.mkdir()
        self.spaces: set[str] = set()

    def start(self, argv: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
        """In a namespace of its own; the process is the command itself."""
        login = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
        script = f"set -eu\n{self._cover()}\ncd {shlex.quote(str(ROOT))}\nexec {shlex.join([*login, *argv])}\n"
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
            env={**env, "HOME": str(self.home), "USER": NAME},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return process

    def _cover(self) -> str:
        """Shell text that makes her known, allows her sudo, and opens the ways."""
        lines = [f"cd {shlex.quote(str(self.place))}"]
        for file, line in FILES.items():
            added, copy = shlex.quote(line.format(home=self.home)), Path(file).name
            lines += [f"cp -p {file} {copy}", f"printf %s {added} >>{copy}"]
            lines += [f"mount --bind {copy} {file}"]
        lines += ["mkdir -p sudoers", f"echo '{NAME} ALL=(ALL) NOPASSWD: ALL' >sudoers/eve"]
        lines += ["chmod 440 sudoers/eve", "mount --bind sudoers /etc/sudoers.d"]
        closed = {Path(path): first_closed(Path(path)) for path in (sys.base_prefix, str(ROOT))}
        shut = {path: way for path, way in closed.items() if way}
        for number, path in enumerate(shut):
            lines += [
                f"mkdir -p open{number}",
                f"mount --bind {shlex.quote(str(path))} open{number}",
            ]
        for way in sorted({str(way) for way in shut.values()}):
            lines += [f"mount -t tmpfs -o mode=755 way {shlex.quote(way)}"]
        for number, path in enumerate(shut):
            to = shlex.quote(str(path))
            lines += [f"mkdir -p {to}", f"mount --bind open{number} {to}"]
        return "\n".join(lines)

    def enter(self, process: subprocess.Popen[str]) -> None:
        """Remember the namespace of a command that has begun."""
        if space := mount_space(process.pid):
            self.spaces.add(space)

    def processes(self) -> Iterator[tuple[int, str]]:
        """Pid and command line of all that lives in her namespaces or is hers, whoever runs it."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                hers = entry.stat().st_uid == UID or mount_space(int(entry.name)) in self.spaces
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if hers and state not in "ZX":
                    said = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    yield int(entry.name), said.decode(errors="replace")


def mount_space(pid: int) -> str:
    """Mount namespace of a process; "" for none that we may know."""
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    return ""


def first_closed(path: Path) -> Path | None:
    """The first directory on the way that others may not pass."""
    whole = path.resolve()
    return next((p for p in (*reversed(whole.parents), whole) if not p.stat().st_mode & 1), None)
