# SPDX-License-Identifier: Apache-2.0
"""Installation of packages on a host, once a person agreed: a detached job there, started and followed by a worker.

Nothing here starts by itself. Nobody needs to watch the installer for it to go on, or for its outcome to be stored: the
sweeper has a worker look again and again until it is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.contracts import RETRYABLE, AgentError, Job, Need, Shell
from agents.drivers import packages
from agents.jobs import job
from agents.jobs.spool import Spool
from agents.plaintext import CONTROL
from benchlab.hosts import discovery, ssh_access
from benchlab.hosts.models import RESEND_AFTER, Host, HostsError, PackageInstall
from benchlab.workers import messages
from benchlab.workers.lease import Lock, lease

ADVANCE = "benchlab.hosts.tasks.advance_install"
TIMEOUT_S = 1800.0
# characters of what it printed, from the end
OUTPUT_MAX_CHARS = 64 * 1024
# After this time the worker that wanted to start it has died.
START_LIMIT = timedelta(minutes=2)
# An install that no worker began by then is given up.
STALE_AFTER = timedelta(minutes=15)
# from one look to the next
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 2.0, 60.0


def missing_programs(host: Host, needs: Iterable[Need] | None = None) -> packages.MissingPrograms:
    """Programs that the host lacked when it was last read: of `needs`, or of all that any layer or tool uses."""
    facts = discovery.last_facts(host)
    if facts is None:
        return packages.MissingPrograms((), ())
    return packages.missing_programs(
        discovery.required_programs() if needs is None else needs, facts
    )


def offered_programs(host: Host) -> packages.MissingPrograms:
    """Programs that the host's page offers: of all that any layer or tool uses, what a known package brings."""
    lacking = missing_programs(host)
    programs = tuple(program for program in lacking.programs if program.package)
    return packages.MissingPrograms(programs, lacking.command)


def install_command(host: Host, chosen: Iterable[str]) -> tuple[str, ...]:
    """The command that installs these on the host. Raises HostsError for what no layer or tool misses there."""
    facts, names = discovery.last_facts(host), list(dict.fromkeys(chosen))
    if facts is None:
        raise HostsError(f"{host.name} was not read yet: read its facts first.")
    available = missing_programs(host).packages
    if strange := [name for name in names if name not in available]:
        raise HostsError(
            f"{host.name} misses no package {', '.join(strange)}; it misses {', '.join(available) or 'none'}."
        )
    if not names:
        raise HostsError("No package was chosen.")
    return packages.install_command(names, facts)


def start_install(
    host: Host, chosen: Iterable[str], confirmed: str, who: AbstractBaseUser | AnonymousUser
) -> PackageInstall:
    """Have a worker start the installer. `confirmed`: the command as the person saw it.

    Raises HostsError when it is another by now, a layout holds the host, or one runs already.
    """
    argv = install_command(host, chosen)
    if " ".join(argv) != confirmed:
        raise HostsError(f"The command is {' '.join(argv)!r} now; look at it and confirm again.")
    if host.layouts.holding().exists():
        raise HostsError(
            f"A layout holds {host.name}: installing would disturb its runs. Wait for it."
        )
    row = _create_row(host, argv, who)
    messages.after_commit(ADVANCE, [row.pk])
    return row


def install_team(pk: int) -> int | None:
    """Team whose host it is for; None if the install is gone."""
    return PackageInstall.objects.filter(pk=pk).values_list("host__team", flat=True).first()


def advance_step(pk: int) -> None:
    """Do one step in a worker: start the install, or check its progress.

    The time of the next look is stored with it.
    """
    with lease(pk, Lock.INSTALLATION) as held:
        rows = PackageInstall.objects.select_related("host__credential")
        row = rows.filter(pk=pk, ended_at=None).first() if held else None
        if row is None:
            return
        silence, begun = "", time.monotonic()
        try:
            follow_install(row) if row.begun_at else _begin_install(row)
        except AgentError as error:
            silence = str(error)
        # A host that takes long to say nothing is asked seldom: it must not keep one of its team's places for itself.
        pause = min(MAX_POLL_SECONDS, MIN_POLL_SECONDS + 4 * (time.monotonic() - begun))
        due_at = timezone.now() + timedelta(seconds=pause)
        PackageInstall.objects.filter(pk=pk).update(due_at=due_at, silence=silence)


def _begin_install(row: PackageInstall) -> None:
    """Begin the install. Raises AgentError when it may have begun nevertheless: `follow_install` detects that."""
    if timezone.now() - row.created_at > STALE_AFTER:
        _end_install(row, trouble="No worker picked it up in time. Try again.")
        return
    ssh_access.try_again(row.host)
    try:
        shell = ssh_access.connect_to_host(row.host)
    except AgentError as error:
        _end_install(row, trouble=str(error))
        return
    PackageInstall.objects.filter(pk=row.pk).update(begun_at=timezone.now())
    try:
        job.start_job(shell, _install_spool(row), _install_job(row))
    except AgentError as error:
        if error.reason in RETRYABLE:
            raise
        _end_install(row, trouble=str(error))


def _create_row(
    host: Host, argv: tuple[str, ...], who: AbstractBaseUser | AnonymousUser
) -> PackageInstall:
    try:
        with transaction.atomic():
            return PackageInstall.objects.create(
                host=host, argv=list(argv), by_id=who.pk, due_at=timezone.now() + RESEND_AFTER
            )
    except IntegrityError:
        raise HostsError(f"Packages are being installed on {host.name} already.") from None


def _install_spool(row: PackageInstall) -> Spool:
    return Spool(f"install-{row.pk}-{int(row.created_at.timestamp() * 1e6):x}", root=True)


def _install_job(row: PackageInstall) -> Job:
    facts = discovery.last_facts(row.host)
    return Job(
        tuple(row.argv),
        env=packages.environment(facts) if facts else {},
        timeout_s=TIMEOUT_S,
        drop_caches=False,
    )


def follow_install(row: PackageInstall) -> PackageInstall:
    """Follow an install; when it is over, store what it printed and read the host anew. Raises AgentError."""
    if row.ended_at is not None:
        return row
    if row.begun_at is None and timezone.now() - row.created_at <= STALE_AFTER:
        # a worker is about to start it
        return row
    shell = ssh_access.connect_to_host(row.host)
    polled = job.poll(shell, _install_spool(row), outputs=())
    if polled.fetched is not None:
        _store_result(row, polled, shell)
    elif polled.state is job.State.ABSENT and _should_be_there(row):
        _end_install(row, trouble="It was never started, or its directory was removed on the host.")
    row.refresh_from_db()
    return row


def _should_be_there(row: PackageInstall) -> bool:
    return timezone.now() - (row.begun_at or row.created_at) > START_LIMIT


def _store_result(row: PackageInstall, polled: job.Polled, shell: Shell) -> None:
    assert polled.fetched, "it was fetched"
    files = polled.fetched.files
    raw = files.get("stdout", b"") + files.get("stderr", b"")
    output = CONTROL.sub(" ", raw.decode("utf-8", "replace").replace("\r", "\n"))[
        -OUTPUT_MAX_CHARS:
    ]
    trouble = ""
    if polled.state is not job.State.EXITED or polled.exit_code != 0:
        message = f"It ended with exit code {polled.exit_code} ({polled.state})."
        trouble = f"{message} {packages.why(output)}".strip()
    # The facts first: whoever sees that it is over sees what it changed.
    discovery.read_facts(row.host, shell)
    missing = missing_programs(row.host).packages
    if not trouble and (still := [name for name in row.packages if name in missing]):
        verb = "is" if len(still) == 1 else "are"
        trouble = f"The installer succeeded, but {', '.join(still)} {verb} still missing."
    _end_install(row, exit_code=polled.exit_code, output=output, trouble=trouble)
    job.remove_spool(shell, _install_spool(row))


def _end_install(row: PackageInstall, **fields: object) -> None:
    PackageInstall.objects.filter(pk=row.pk, ended_at=None).update(
        ended_at=timezone.now(), **fields
    )


def is_installing(host: Host) -> bool:
    """True while packages are being installed there. Raises AgentError when the host does not answer."""
    row = host.installs.filter(ended_at=None).first()
    return row is not None and follow_install(row).ended_at is None
