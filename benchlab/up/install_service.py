# SPDX-License-Identifier: Apache-2.0
"""`manage.py install-service`: print or write systemd units, and list the commands to type next.

Nothing is started and no user is created: whoever types the commands sees what they do. One unit runs
`up` with its own stores, or several run web server, worker and beat with stores that are named to them.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchlab.installation import ROOT, program
from benchlab.up import supervised
from benchlab.up.command import LISTEN, address, port_number
from benchlab.up.postgres import reachable
from benchlab.up.state import State, state_from_environment
from benchlab.up.supervisor import STOP_ORDER, STOP_PATIENCE_S
from benchlab.up.trouble import Trouble, remedy

SYSTEM, USERS = Path("/etc/systemd/system"), Path("~/.config/systemd/user")
# of a unit and of a user, as useradd takes it
NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")


def run(rest: list[str]) -> int:
    """Run the command with its own options. Raises Trouble."""
    options = parser().parse_args(rest)
    wish = wished(options)
    if wish.user:
        require_readable(wish.user)
    units = split(wish) if options.split else whole(wish)
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


def wished(options: argparse.Namespace) -> Wish:
    usual = state_from_environment().path if options.user else Path("/var/lib") / options.name
    state = (options.state or usual).absolute()
    user = "" if options.user else unit_name(options.run_as or options.name)
    return Wish(options.name, state, options.host, options.port, user)


def write(path: Path, text: str) -> None:
    """Write the units. Raises Trouble rather than replace a file that BenchLab did not write."""
    try:
        if path.exists() and not path.read_text().startswith(HEAD):
            raise Trouble(f"{path} was not made by this command: move it away first.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        todo = remedy(error, "Name a directory that can be written to.")
        raise Trouble(f"Cannot write {path}: {error.strerror}. {todo}") from None


def steps(wish: Wish, options: argparse.Namespace, place: Path, units: list[str]) -> list[str]:
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
        lines.append(f"# with these files in it, mode 600: {' '.join(SECRETS)}")
    lines.append(f"systemctl{user} daemon-reload")
    lines.append(f"systemctl{user} enable --now {first}")
    if not wish.user:
        lines.append("loginctl enable-linger   # runs while you are not logged in, too")
    unit_name = f"{wish.name}-prepare" if options.split else wish.name
    lines.append(f"journalctl{user} -u {unit_name}   # has the first administrator's password")
    return lines


HEAD = "# Made by BenchLab's install-service. Changes belong in a drop-in: systemctl edit\n"
HOMES = ("/home", "/root", "/run/user")
SECRETS = ("SECRET_KEY", "BENCHLAB_KEY", "DATABASE_URL", "REDIS_URL")
# Seconds beyond those that `up` gives its children.
MARGIN_S = 20
# Restrictions that a user's own systemd can apply without root, too.
BY_ANYBODY = {
    "NoNewPrivileges": "yes",
    "LockPersonality": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    # Netlink is needed to read the machine's addresses.
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "SystemCallArchitectures": "native",
    "SystemCallErrorNumber": "EPERM",
    "UMask": "0077",
}
BY_ROOT = BY_ANYBODY | {
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "PrivateUsers": "yes",
    # No RemoveIPC: that user may run a second PostgreSQL outside of the unit, and it would lose its memory.
    "ProtectClock": "yes",
    "ProtectControlGroups": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectProc": "invisible",
}
CALLS = "@system-service"
# Chromium builds its sandbox of namespaces, where there is a worker.
ALONE = {"RestrictNamespaces": "yes", "SystemCallFilter": f"{CALLS}\n~@privileged"}
WITH_CHROMIUM = {"RestrictNamespaces": "user pid net", "SystemCallFilter": f"{CALLS} chroot"}


@dataclass(frozen=True, slots=True)
class Wish:
    """Options of install-service."""

    name: str
    state: Path
    host: str
    port: int
    # "": the units are for systemd of one user, who runs them
    user: str

    @property
    def settings(self) -> str:
        """Directory of settings and secrets; systemd puts /etc for %E, or the user's ~/.config."""
        return f"%E/{self.name}"


def require_readable(user: str) -> None:
    """Raise Trouble where that user could not read the program or its Python."""
    for path in (ROOT, Path(sys.executable)):
        if not reachable(path):
            raise Trouble(
                f"{path.resolve()} cannot be read by every user, so {user} could not run it. Put the checkout into"
                " /opt/benchlab, set it up there with the system's own Python (`/usr/bin/python3 manage.py help`),"
                " and run this command there; or make units for yourself: --user."
            )


def whole(wish: Wish) -> dict[str, str]:
    """The single unit that runs `up`, by file name."""
    up = (*program(), "up", "--host", wish.host, "--port", str(wish.port))
    stop_s = round(STOP_PATIENCE_S * len(STOP_ORDER)) + MARGIN_S
    service = {
        # `up` notifies systemd when the page answers; the first start creates a database before that.
        "Type": "notify",
        "NotifyAccess": "main",
        "TimeoutStartSec": "10min",
        # `up` stops its children in order; systemd kills the rest.
        "KillMode": "mixed",
        # `up` restarts its children itself.
        "OOMPolicy": "continue",
        "ExecStart": command(up),
    }
    service |= _common(wish, stop_s, {"BENCHLAB_STATE": str(wish.state)}) | WITH_CHROMIUM
    unit = {"Description": "BenchLab, storage benchmark campaigns"}
    return {f"{wish.name}.service": text(unit | _after(wish), service, _unit_names(wish))}


def split(wish: Wish) -> dict[str, str]:
    """Units of web server, worker, beat and the listener for dynamos, what they need first, and their target."""
    state, target = State(wish.state), f"{wish.name}.target"
    prepare = f"{wish.name}-prepare.service"
    env = {
        "BENCHLAB_STATE": str(wish.state),
        "BENCHLAB_STATIC": str(wish.state / "static"),
        "BENCHLAB_AUDIT_HEAD": str(wish.state / "audit-head.json"),
        "BENCHLAB_NO_BOOTSTRAP": "1",
        "DJANGO_SETTINGS_MODULE": "benchlab.settings",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        **{f"{name}_FILE": f"%d/{name}" for name in SECRETS},
    }
    once = (*supervised.prepare(), "--library")
    many = {
        "web": (supervised.web(wish.host, wish.port, {}).argv, 15, ALONE),
        "worker": (supervised.worker({}).argv, 30, WITH_CHROMIUM),
        "beat": (supervised.beat(state, {}).argv, 15, ALONE),
        "dynamo": ((*program(), "dynamo_listener"), 15, ALONE),
    }
    secrets = "\n".join(f"{name}:{wish.settings}/{name}" for name in SECRETS)
    service_values = {"WorkingDirectory": escape(str(ROOT)), "LoadCredential": secrets}
    bound = _after(wish) | {"PartOf": target}
    first = {"Type": "oneshot", "RemainAfterExit": "yes", "ExecStart": command(once)}
    first |= {**_common(wish, 15, env), **service_values, **ALONE, "TimeoutStartSec": "10min"}
    del first["Restart"], first["RestartSec"]
    units = {prepare: text({"Description": "BenchLab: database and static files"} | bound, first)}
    for name, (argv, stop_s, calls) in many.items():
        unit = {"Description": f"BenchLab: {name}", **bound, "Requires": prepare}
        unit["After"] = f"{bound.get('After', '')} {prepare}".strip()
        service = {"Type": "exec", "ExecStart": command(argv), "KillMode": "mixed"}
        service |= {**_common(wish, stop_s, env), **service_values, **calls}
        # only where settings ask for it
        if name == "dynamo":
            condition = '/bin/sh -c "test -n \\"$$BENCHLAB_DYNAMO_LISTEN\\""'
            service = {"ExecCondition": condition, **service}
        units[f"{wish.name}-{name}.service"] = text(unit, service)
    wants = " ".join(f"{wish.name}-{name}.service" for name in many)
    unit_values = {"Description": "BenchLab, storage benchmark campaigns", "Wants": wants}
    return units | {target: text(unit_values, {}, _unit_names(wish))}


def _after(wish: Wish) -> dict[str, str]:
    if not wish.user:
        return {}
    return {
        "After": "network-online.target postgresql.service valkey-server.service redis-server.service",
        "Wants": "network-online.target",
        "RequiresMountsFor": quoted(str(wish.state)),
    }


def _unit_names(wish: Wish) -> dict[str, str]:
    return {"WantedBy": "multi-user.target" if wish.user else "default.target"}


def _common(wish: Wish, stop_s: int, env: Mapping[str, str]) -> dict[str, str]:
    """The settings that all services share."""
    # The service may not write in the checkout, and without compiled modules each start takes twice as long.
    env = {**env, "PYTHONPYCACHEPREFIX": str(wish.state / "compiled")}
    environment = "\n".join(
        quoted(f"{name}={value}", "%d/" not in value) for name, value in env.items()
    )
    service = {
        "Environment": environment,
        "EnvironmentFile": f"-{wish.settings}/environment",
        "Restart": "on-failure",
        "RestartSec": "5s",
        "TimeoutStopSec": f"{stop_s}s",
        "LimitNOFILE": "65536",
    }
    if not wish.user:
        return service | BY_ANYBODY
    paths = (ROOT, Path(sys.executable).resolve(), wish.state)
    at_home = any(path.is_relative_to(home) for path in paths for home in HOMES)
    who = {"User": wish.user, "Group": wish.user, "ReadWritePaths": quoted(str(wish.state))}
    return service | who | BY_ROOT | {"ProtectHome": "read-only" if at_home else "yes"}


def text(
    unit: Mapping[str, str], service: Mapping[str, str], install: Mapping[str, str] | None = None
) -> str:
    """A unit's file. A value of several lines is a setting that is given several times."""
    sections = {"Unit": unit, "Service": service, "Install": install or {}}
    parts = [
        "\n".join([f"[{name}]", *_lines(values)]) for name, values in sections.items() if values
    ]
    return HEAD + "\n\n".join(parts) + "\n"


def _lines(values: Mapping[str, str]) -> Iterable[str]:
    return (f"{name}={line}" for name, value in values.items() for line in value.split("\n"))


def command(argv: Sequence[str | Path]) -> str:
    """ExecStart's value: each word as it stands, whatever systemd would make of it."""
    return " ".join(quoted(str(word)).replace("$", "$$") for word in argv)


def quoted(word: str, literal: bool = True) -> str:
    """One word of a list. `literal`: no specifier of systemd is in it."""
    escaped = (escape(word) if literal else word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if set(escaped) & set(" \t'\"\\;") or not escaped else escaped


def escape(value: str) -> str:
    """A whole value, in which systemd sees no specifier."""
    return value.replace("%", "%%")
