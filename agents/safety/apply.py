# SPDX-License-Identifier: Apache-2.0
"""The only executor of Steps: read facts, guard, log, run, undo. It decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from agents.contracts import (
    AgentError,
    Argument,
    Claim,
    GuardError,
    Ran,
    Reason,
    Secret,
    Shell,
    Step,
)
from agents.facts.model import HostFacts
from agents.plaintext import visible
from agents.safety import guard
from agents.ssh.lasting_shell import LastingShell

# udev that is still busy after its time (on a slow host, or with other disks) has not failed what was built: that is
# looked at when the layer stands.
SETTLE = ("udevadm", "settle")
# bytes of each output that a record keeps, from its end
MAX_OUTPUT_BYTES = 64 * 1024
UNDOING = {Reason.COMMAND_FAILED, Reason.GUARD_REFUSED, Reason.BAD_FACTS}
# so old may a reading be when a Step is the first to touch a disk
FRESH_S = 3.0
# and so old for further Steps on disks that this apply has taken: what was on them is gone
SAME_S = 10.0
# a log that took longer to write leaves a reading too old
LOG_S = 1.0
# The kernel's own answer to whether a disk is in use. Facts show neither a mount in a namespace without processes nor
# one that was unmounted lazily; such a disk has an exclusive user, and the kernel refuses a second one. A disk that is
# only opened, by a program or a loop device, is found by the facts alone.
# sh -c OPEN sh NODE...: prints each that cannot be opened and why, and exits with 1 then. Nothing is written: wipefs
# opens a disk with O_EXCL, as no other program does that every Linux has, and looks for signatures of a type that does
# not exist. Some holders stay for a moment only (mdadm, multipathd).
OPEN = r"""
code=0
for node; do
    n=0
    until why=$(LC_ALL=C wipefs --no-act --all --types benchlab -- "$node" 2>&1); do
        n=$((n + 1))
        [ "$n" -lt 10 ] || { printf '%s\n' "$node: $why"; code=1; break; }
        sleep 0.2 || sleep 1
    done
done
exit $code
"""
# GEOM lets nobody open a provider for writing that another consumer has exclusively. A read-only mount is no such one;
# the facts show it.
OPEN_FREEBSD = r"""
code=0
for node; do
    why=$( { : <>"$node"; } 2>&1) || { printf '%s\n' "$node: $why"; code=1; }
done
exit $code
"""
# EBUSY; GEOM says EPERM
BUSY = ("busy", "Operation not permitted")


@dataclass(frozen=True, slots=True)
class Look:
    """Facts that were read right before `apply`, by somebody who ran nothing on the host since."""

    facts: HostFacts
    # time.monotonic() before they were read
    began: float


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A Step as it is logged: once before it runs (exit_code None), once after. Free of secrets.

    One that provably did not run is logged once, with its `error`, and destroys nothing.
    """

    # counts up within one call of apply, undo steps too
    index: int
    # as displayed
    argv: tuple[str, ...]
    says: str
    started: datetime
    undo: bool = False
    # identities of the claimed disks
    destroys: tuple[str, ...] = ()
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    # why it did not run, or the connection's last word
    error: str = ""


def apply(
    steps: Sequence[Step],
    shell: Shell,
    *,
    layout: str,
    spares: Mapping[str, guard.Spare],
    read_facts: Callable[[], HostFacts],
    log: Callable[[StepRecord], None],
    undo: bool = True,
    look: Look | None = None,
    touched: Collection[str] = (),
) -> None:
    """Run the Steps in order, each guarded by facts read a moment ago: FRESH_S at most before the first Step that
    touches a disk, SAME_S before any other that writes. A `look` is such a reading, of somebody who ran nothing since.
    Where a layout is built (`undo`), a disk that it has not touched before must also be free for exclusive use.
    `touched`: identities of those that it has.

    Raises GuardError or AgentError (COMMAND_FAILED, or the connection's Reason) after undoing, newest first, what had
    run; with `undo=False` (a teardown) it stops where it is. A lost connection undoes nothing: nobody can know what
    ran, the teardown finds out.
    """
    run = _Run(shell, layout, spares, read_facts, log, look, frozenset(touched) if undo else None)
    applied: list[Step] = []
    for step in steps:
        try:
            run.run_step(step)
        except AgentError as error:
            if undo and error.reason in UNDOING:
                # Not the failed Step's own undo: mkdir fails on a directory that is somebody's.
                run.back(applied, error)
            raise
        applied.append(step)


class _Run:
    def __init__(
        self,
        shell: Shell,
        layout: str,
        spares: Mapping[str, guard.Spare],
        read_facts: Callable[[], HostFacts],
        log: Callable[[StepRecord], None],
        look: Look | None,
        touched: frozenset[str] | None,
    ) -> None:
        self.shell, self.layout, self.spares = shell, layout, spares
        self.read_facts, self.log = read_facts, log
        self.look = look if look and time.monotonic() - look.began < FRESH_S else None
        # identities of the disks that a Step has touched
        self.taken: set[str] = set()
        # Disks that are the layout's already; None: whoever else uses one is not looked for
        self.touched = touched
        self.index = 0

    def run_step(self, step: Step, undo: bool = False) -> None:
        """Run a Step, guarded and logged. Raises AgentError."""
        argv = tuple(str(word) for word in step.argv)
        destroys = tuple(claim.identity for claim in step.destroys)
        record = StepRecord(self.index, argv, step.says, datetime.now(UTC), undo, destroys)
        self.index += 1
        # Before it is logged: what the guard refuses must not count as done to a disk.
        self._guarded(step, record)
        began = time.monotonic()
        self.log(record)
        started = time.monotonic()
        try:
            if started - began > LOG_S:
                self.look = None
                self._guard(step)
            self.taken |= set(destroys)
            self._keep_udev(step)
            ran = self.shell.run(
                step.argv, stdin=step.stdin.encode(), root=step.root, timeout_s=step.timeout_s
            )
        except AgentError as error:
            seconds = time.monotonic() - started
            self.log(replace(record, error=_masked(str(error), step.argv), seconds=seconds))
            raise
        record = _finished_record(record, ran, step.argv)
        self.log(record)
        if ran.exit_code != 0 and step.argv[:2] != SETTLE:
            raise AgentError(_failure(record), Reason.COMMAND_FAILED)

    def _guarded(self, step: Step, record: StepRecord) -> None:
        try:
            self._guard(step)
        except AgentError as error:
            self.log(replace(record, destroys=(), error=_masked(str(error), step.argv)))
            raise

    def _guard(self, step: Step) -> None:
        now = time.monotonic()
        disks = {claim.identity for claim in step.destroys}
        most = SAME_S if disks <= self.taken else FRESH_S
        if self.look is None or (disks and now - self.look.began >= most):
            self.look = Look(self.read_facts(), now)
        guard.check_step(step, self.look.facts, self.spares, self.layout)
        if self.touched is None:
            return
        ours = self.taken | self.touched
        if new := [claim for claim in step.destroys if claim.identity not in ours]:
            # Or udev would read the disks anew after this, too
            self._keep_udev(step)
            prove_unused(self.shell, new, self.look.facts.os_family)

    def _keep_udev(self, step: Step) -> None:
        """Keep udev from the disks of quiet Steps, also those of the next layer, until its shell ends."""
        if not isinstance(self.shell, LastingShell):
            return
        if step.quiet:
            self.shell.hold({claim.node for claim in step.destroys})
        else:
            self.shell.free()

    def back(self, applied: Sequence[Step], cause: AgentError) -> None:
        """Undo what can be undone; what cannot is added to the cause, and the teardown will meet it."""
        for step in reversed(applied):
            for undoing in step.undo:
                try:
                    self.run_step(undoing, undo=True)
                except AgentError as error:
                    cause.add_note(f"and the rollback failed: {error}")


def prove_unused(shell: Shell, claims: Sequence[Claim], os_family: str) -> None:
    """Open each disk exclusively, and write nothing.

    Raises GuardError naming each that cannot be opened so, the cause and the cure.
    """
    nodes = dict.fromkeys(claim.node for claim in claims)
    if not nodes:
        return
    script = OPEN_FREEBSD if os_family == "freebsd" else OPEN
    ran = shell.run(("sh", "-c", script, "sh", *nodes), root=True, timeout_s=60 + 15 * len(nodes))
    if ran.exit_code == 0:
        return
    lines = ran.stdout.decode("utf-8", "replace").splitlines()
    reasons = [_reason(node, lines) for node in nodes if any(_is_of(node, line) for line in lines)]
    if not reasons:
        stderr = ran.stderr.decode("utf-8", "replace").strip() or "no output"
        reasons = [f"{', '.join(nodes)} could not be opened exclusively: {stderr}"]
    raise GuardError("refused before anything was written: " + "; ".join(reasons))


def _is_of(node: str, line: str) -> bool:
    return line.startswith(f"{node}: ")


def _reason(node: str, lines: Sequence[str]) -> str:
    why = next(line for line in lines if _is_of(node, line)).removeprefix(f"{node}: ")
    if not any(word in why for word in BUSY):
        return f"{node} could not be opened exclusively: {why}"
    return (
        f"{node} is in use by the kernel (EBUSY on exclusive open), though nothing on the host shows by what. It may be"
        " a mount in another namespace that has no process left (a bind of /proc/PID/ns/mnt keeps it), or a file system"
        " unmounted lazily (umount -l) while a file on it is open. End that or reboot the host, then retry"
    )


def _finished_record(record: StepRecord, ran: Ran, argv: Sequence[Argument]) -> StepRecord:
    return replace(
        record,
        exit_code=ran.exit_code,
        stdout=_masked_text(ran.stdout, argv),
        stderr=_masked_text(ran.stderr, argv),
        seconds=ran.seconds,
    )


def _masked_text(raw: bytes, argv: Sequence[Argument]) -> str:
    whole = raw.decode("utf-8", "backslashreplace")
    # before the cut, which might leave half a secret
    masked = _masked(whole, argv)
    text = visible(masked[-MAX_OUTPUT_BYTES:], MAX_OUTPUT_BYTES)
    return text if len(masked) <= MAX_OUTPUT_BYTES else "…" + text


def _masked(text: str, argv: Sequence[Argument]) -> str:
    for word in argv:
        if isinstance(word, Secret) and word.value:
            text = text.replace(word.value, "***")
    return text


def _failure(record: StepRecord) -> str:
    lines = [line.strip() for line in record.stderr.splitlines() if line.strip()]
    # The cause stands first where usage follows it (mkfs.xfs), and last after warnings.
    if len(lines) > 4:
        lines = [*lines[:2], "…", *lines[-2:]]
    output = " / ".join(lines) or "no output"
    # A whole script would hide the message; the log has it.
    script = record.argv[:2] == ("sh", "-c")
    command = f"{record.says!r} (a script)" if script else " ".join(record.argv)
    return f"{command} ended with exit code {record.exit_code}: {output}"
