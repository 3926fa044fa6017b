# SPDX-License-Identifier: Apache-2.0
"""Practice hosts by hand: python -m benchlab.practice COMMAND [NAME]."""

import argparse
import os
import sys

from benchlab.practice import (
    DiskSpec,
    PracticeError,
    PracticeHost,
    QemuHost,
    SlowDisk,
    UmlHost,
    boot_practice_host,
    ensure_image,
    ensure_zfs_image,
    list_hosts,
    open_host,
    sweep_leftovers,
)
from benchlab.practice.ssh import ssh_argv

_DOES = {
    "kill": PracticeHost.kill,
    "restart": PracticeHost.restart,
    "cut": PracticeHost.cut,
    "heal": PracticeHost.heal,
    "stop": PracticeHost.stop,
}


def main() -> int:
    """Run one command; 1 when it cannot be done."""
    wish = _parser().parse_args()
    try:
        _act(wish)
    except PracticeError as error:
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        print(f"{error}{notes}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchlab.practice", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build the root image, unless it is there")
    commands.add_parser("list", help="hosts that exist")
    commands.add_parser("sweep", help="stop hosts whose owner has died")
    start = commands.add_parser("start", help="make and boot a host, or power it on again")
    start.add_argument("name", nargs="?", default="practice")
    start.add_argument(
        "--disk", type=_disk, action="append", metavar="MIB[:IOPS]", help="a fast disk"
    )
    start.add_argument("--slow", type=int, action="append", metavar="MIB", help="a slow disk")
    start.add_argument("--memory", type=int, metavar="MIB")
    start.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0: any free one")
    for command in (build, start):
        command.add_argument("--zfs", action="store_true", help="under QEMU, with OpenZFS")
    for name in (*_DOES, "ssh"):
        command = commands.add_parser(name)
        command.add_argument("name", nargs="?", default="practice")
    return parser


def _disk(words: str) -> DiskSpec:
    size, _, iops = words.partition(":")
    return DiskSpec(int(size), iops=int(iops) if iops else None)


def _act(wish: argparse.Namespace) -> None:
    if wish.command == "build":
        print((ensure_zfs_image() if wish.zfs else ensure_image()).directory)
    elif wish.command == "list":
        for host in list_hosts():
            _show(host)
    elif wish.command == "sweep":
        print("\n".join(sweep_leftovers()))
    elif wish.command == "start":
        _show(_start_host(wish))
    elif wish.command == "ssh":
        host = open_host(wish.name)
        argv = ssh_argv(host.port, host.key_path, "root", ())
        os.execvp(argv[0], argv)
    else:
        _DOES[wish.command](open_host(wish.name))


def _start_host(wish: argparse.Namespace) -> PracticeHost:
    host: PracticeHost = QemuHost(wish.name) if wish.zfs else UmlHost(wish.name)
    if host.exists:
        host = open_host(wish.name)
        if not host.running:
            host.restart()
        return host
    if not (wish.zfs or wish.disk or wish.slow_role):
        return boot_practice_host(wish.name, print)
    return host.start(
        wish.disk or (),
        [SlowDisk(size) for size in wish.slow_role or ()],
        memory_mb=wish.memory,
        port=wish.port,
        progress=print,
    )


def _show(host: PracticeHost) -> None:
    state = "running" if host.running else "powered off"
    print(f"{host.name}: {state}, ssh -p {host.port} -i {host.key_path} root@127.0.0.1")


if __name__ == "__main__":
    sys.exit(main())
