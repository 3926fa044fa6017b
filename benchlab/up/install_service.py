# SPDX-License-Identifier: Apache-2.0
"""`manage.py install-service`: print or write systemd units, and list the commands to type next.

Nothing is started and no user is created: whoever types the commands sees what they do.
"""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

from benchlab.up import systemd
from benchlab.up.command import LISTEN, address, port_number
from benchlab.up.state import state_from_environment
from benchlab.up.trouble import Trouble, remedy

SYSTEM, USERS = Path("/etc/systemd/system"), Path("~/.config/systemd/user")
# of a unit and of a user, as useradd takes it
NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")


def run(rest: list[str]) -> int:
    """Run the command with its own options. Raises Trouble."""
    options = parser().parse_args(rest)
    wish = wished(options)
    if wish.user:
        systemd.require_readable(wish.user)
    units = systemd.split(wish) if options.split else systemd.whole(wish)
    place = options.write or (SYSTEM if wish.user else USERS)
    for name, text in units.items():
        if options.write:
            write(place / name, text)
        else:
            print(f"# --write {place} makes {name}:\n{text}")
    print("\n".join(steps(wish, options, place, list(units))))
    return 0


def parser() -> argparse.ArgumentParser:
    argument_parser = argparse.ArgumentParser(
        "manage.py install-service", description="Print units of systemd; nothing is started."
    )
    argument_parser.add_argument("--write", type=Path, metavar="DIR", help="write them there")
    argument_parser.add_argument(
        "--split", action="store_true", help="web, worker and beat by themselves"
    )
    argument_parser.add_argument(
        "--user", action="store_true", help="for your own systemd, without root"
    )
    argument_parser.add_argument(
        "--run-as", default="", help="the system's user who runs it (default: NAME)"
    )
    argument_parser.add_argument(
        "--name", type=unit_name, default="benchlab", help="of units and settings"
    )
    argument_parser.add_argument(
        "--state", type=Path, help="state directory (default: /var/lib/NAME)"
    )
    argument_parser.add_argument("--host", default="127.0.0.1", type=address, help=LISTEN)
    argument_parser.add_argument("--port", type=port_number, default=8000)
    return argument_parser


def unit_name(word: str) -> str:
    if not NAME.fullmatch(word):
        raise argparse.ArgumentTypeError(f"expected a-z, 0-9, - and _, got {word!r}")
    return word


def wished(options: argparse.Namespace) -> systemd.Wish:
    usual = state_from_environment().path if options.user else Path("/var/lib") / options.name
    state = (options.state or usual).absolute()
    user = "" if options.user else unit_name(options.run_as or options.name)
    return systemd.Wish(options.name, state, options.host, options.port, user)


def write(path: Path, text: str) -> None:
    """Write the units. Raises Trouble rather than replace a file that BenchLab did not write."""
    try:
        if path.exists() and not path.read_text().startswith(systemd.HEAD):
            raise Trouble(f"{path} was not made by this command: move it away first.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        todo = remedy(error, "Name a directory that can be written to.")
        raise Trouble(f"Cannot write {path}: {error.strerror}. {todo}") from None


def steps(
    wish: systemd.Wish, options: argparse.Namespace, place: Path, units: list[str]
) -> list[str]:
    """The commands to type next; those that need a choice are comments."""
    first = f"{wish.name}.target" if options.split else f"{wish.name}.service"
    user = "" if wish.user else " --user"
    where = f"/etc/{wish.name}" if wish.user else f"~/.config/{wish.name}"
    state = shlex.quote(str(wish.state))
    lines = [f"# Then{', as root' if wish.user else ''}:"]
    if place == options.write and place not in (SYSTEM, USERS.expanduser()):
        files = " ".join(shlex.quote(str(place / unit)) for unit in units)
        lines.append(f"cp {files} {SYSTEM if wish.user else USERS}/")
    if wish.user:
        lines.append(
            f"useradd --system --user-group --home-dir {state} --shell /usr/sbin/nologin {wish.user}"
        )
        lines.append(f"install -d -o {wish.user} -g {wish.user} -m 711 {state}")
    lines.append(f"# Settings, NAME=value, if need be: {where}/environment")
    if options.split:
        lines.append(f"install -d -m 700 {where}")
        lines.append(f"# with these files in it, mode 600: {' '.join(systemd.SECRETS)}")
    lines.append(f"systemctl{user} daemon-reload")
    lines.append(f"systemctl{user} enable --now {first}")
    if not wish.user:
        lines.append("loginctl enable-linger   # runs while you are not logged in, too")
    unit_name = f"{wish.name}-prepare" if options.split else wish.name
    lines.append(f"journalctl{user} -u {unit_name}   # has the first administrator's password")
    return lines
