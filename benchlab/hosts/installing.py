"""Packages onto a host, once a person has said so: a detached job there, followed by whoever looks at it.

Nothing here starts by itself. Nobody needs to look for the installer to go on; what became of it is brought back by
the next one who asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import cattrs
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents import job, packages
from agents.contracts import RETRYABLE, AgentError, Job, Need, Shell
from agents.facts.model import HostFacts
from agents.plaintext import CONTROL
from agents.spool import Spool
from benchlab.hosts import contact, discovery
from benchlab.hosts.errors import HostsError
from benchlab.hosts.models import Host, PackageInstall
from benchlab.runs.states import HOLDING

TIMEOUT_S = 1800.0
KEEP = 64 * 1024  # characters of what it printed, from the end
STARTS_WITHIN = timedelta(minutes=2)  # else whoever wanted to start it died before


def missing(host: Host, needs: Iterable[Need] | None = None) -> packages.Missings:
    """What the host lacked when it was last read: of `needs`, or of all that any layer or tool uses."""
    facts = _facts(host)
    if facts is None:
        return packages.Missings((), ())
    return packages.missing(discovery.needs() if needs is None else needs, facts)


def _facts(host: Host) -> HostFacts | None:
    """Of the last reading; None when there is none, or it is of a version that cannot be understood any more."""
    latest = host.snapshots.first()
    try:
        return discovery.facts_of(latest) if latest else None
    except cattrs.BaseValidationError:
        return None


def offered(host: Host) -> packages.Missings:
    """What the host's page offers: of all that any layer or tool uses, what a known package brings."""
    lacking = missing(host)
    known = tuple(one for one in lacking.programs if one.package)
    return packages.Missings(known, lacking.command)


def command(host: Host, chosen: Iterable[str]) -> tuple[str, ...]:
    """The command that installs these on the host. Raises HostsError for what no layer or tool misses there."""
    facts, names = _facts(host), list(dict.fromkeys(chosen))
    if facts is None:
        raise HostsError(f"{host.name} was not read yet: read its facts first.")
    known = missing(host).packages
    if strange := [name for name in names if name not in known]:
        raise HostsError(
            f"{host.name} misses no package {', '.join(strange)}; it misses {', '.join(known) or 'none'}."
        )
    if not names:
        raise HostsError("No package was chosen.")
    return packages.command(names, facts)


def start(
    host: Host, chosen: Iterable[str], confirmed: str, who: AbstractBaseUser | AnonymousUser
) -> PackageInstall:
    """Start the installer. `confirmed`: the command as the person saw it.

    Raises HostsError when it is another by now, a layout holds the host, or one runs already; AgentError when the host
    does not answer.
    """
    argv = command(host, chosen)
    if " ".join(argv) != confirmed:
        raise HostsError(f"The command is {' '.join(argv)!r} now; look at it and confirm again.")
    if host.layouts.filter(phase__in=HOLDING).exists():
        raise HostsError(
            f"A layout holds {host.name}: installing would disturb its runs. Wait for it."
        )
    shell = contact.connect(host)
    row = _row(host, argv, who)
    try:
        job.start(shell, _spool(row), _job(row))
    except AgentError as error:
        if error.reason not in RETRYABLE:  # else it may have begun: `follow` finds out
            _end(row, trouble=str(error))
        raise
    return row


def _row(
    host: Host, argv: tuple[str, ...], who: AbstractBaseUser | AnonymousUser
) -> PackageInstall:
    try:
        with transaction.atomic():
            return PackageInstall.objects.create(host=host, argv=list(argv), by_id=who.pk)
    except IntegrityError:
        raise HostsError(f"Packages are being installed on {host.name} already.") from None


def _spool(row: PackageInstall) -> Spool:
    return Spool(f"install-{row.pk}-{int(row.created_at.timestamp() * 1e6):x}", root=True)


def _job(row: PackageInstall) -> Job:
    facts = _facts(row.host)
    return Job(
        tuple(row.argv),
        env=packages.environment(facts) if facts else {},
        timeout_s=TIMEOUT_S,
        drop_caches=False,
    )


def follow(row: PackageInstall) -> PackageInstall:
    """Look how far it is; when it is over, keep what it printed and read the host anew. Raises AgentError."""
    if row.ended_at is not None:
        return row
    shell = contact.connect(row.host)
    polled = job.poll(shell, _spool(row), outputs=())
    if polled.fetched is not None:
        _over(row, polled, shell)
    elif polled.state is job.State.ABSENT and timezone.now() - row.created_at > STARTS_WITHIN:
        _end(row, trouble="It was never started, or somebody removed its directory on the host.")
    row.refresh_from_db()
    return row


def _over(row: PackageInstall, polled: job.Polled, shell: Shell) -> None:
    assert polled.fetched, "it was fetched"
    files = polled.fetched.files
    raw = files.get("stdout", b"") + files.get("stderr", b"")
    output = CONTROL.sub(" ", raw.decode("utf-8", "replace").replace("\r", "\n"))[-KEEP:]
    trouble = ""
    if polled.state is not job.State.EXITED or polled.exit_code != 0:
        said = f"It ended with exit code {polled.exit_code} ({polled.state})."
        trouble = f"{said} {packages.why(output)}".strip()
    # The facts first: whoever sees that it is over sees what it changed.
    discovery.read_facts(row.host, shell)
    left = missing(row.host).packages
    if not trouble and (still := [name for name in row.packages if name in left]):
        trouble = (
            f"The installer said yes, yet what {', '.join(still)} should bring is still not there."
        )
    _end(row, exit_code=polled.exit_code, output=output, trouble=trouble)
    job.remove(shell, _spool(row))


def _end(row: PackageInstall, **fields: object) -> None:
    PackageInstall.objects.filter(pk=row.pk, ended_at=None).update(
        ended_at=timezone.now(), **fields
    )


def busy(host: Host) -> bool:
    """Whether packages are being installed there now. Raises AgentError when it does not answer."""
    row = host.installs.filter(ended_at=None).first()
    return row is not None and follow(row).ended_at is None
