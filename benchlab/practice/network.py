# SPDX-License-Identifier: Apache-2.0
"""A host's own network namespace, and the one port on loopback that leads into it."""

import contextlib
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from benchlab.practice import forward
from benchlab.practice.errors import PracticeError, run_command
from benchlab.practice.process import ProcessId, inside, spawn

GUEST_ADDRESS = "10.77.0.2"
"""The same in every namespace; guest/etc/practice/network says it too."""

_OUR_ADDRESS = "10.77.0.1/24"
TAP = "tap0"


@dataclass(frozen=True)
class Network:
    """One namespace by name."""

    name: str

    @property
    def socket_path(self) -> Path:
        return Path("/run/netns") / self.name

    def up(self) -> None:
        """Make the namespace and its tap device."""
        run_command(("ip", "netns", "add", self.name))
        self._ip("link", "set", "lo", "up")
        self._ip("tuntap", "add", "dev", TAP, "mode", "tap")
        self._ip("link", "set", TAP, "up")
        self.heal()

    def cut(self) -> None:
        """Cut the guest off from this side, without closing open connections."""
        # Taking the tap down would do as well, but the guest's driver then stays deaf for a while.
        if self._connected():
            self._ip("addr", "del", _OUR_ADDRESS, "dev", TAP)

    def heal(self) -> None:
        """They hear each other again."""
        if not self._connected():
            self._ip("addr", "add", _OUR_ADDRESS, "dev", TAP)

    def _ip(self, *argv: str) -> str:
        # Not `ip -n`: it remounts /sys, and cannot where the root is a plain directory (a chroot).
        return run_command(("nsenter", f"--net={self.socket_path}", "ip", *argv))

    def _connected(self) -> bool:
        return _OUR_ADDRESS in self._ip("-4", "addr", "show", "dev", TAP).split()

    def down(self) -> None:
        """End whatever still runs in the namespace and remove it; safe to call twice."""
        with contextlib.suppress(FileNotFoundError):
            for process in inside(self.socket_path):
                process.kill()
        if self.socket_path.exists():
            run_command(("ip", "netns", "del", self.name))

    def forward(self, port: int, log: Path) -> tuple[ProcessId, int]:
        """Lead 127.0.0.1:port to the guest's sshd; 0 takes any free port. The process, the port."""
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError as error:
                raise PracticeError(f"port {port} is taken: choose another, or 0") from error
            listener.listen(64)
            number = listener.fileno()
            argv = (
                *(sys.executable, "-I", str(Path(forward.__file__))),
                *(str(number), str(self.socket_path), GUEST_ADDRESS, "22"),
            )
            return spawn(argv, log, inherited_fds=(number,)), listener.getsockname()[1]
