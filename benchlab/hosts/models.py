# SPDX-License-Identifier: Apache-2.0
"""A host is reached by SSH with a pinned key; its devices are known by WWN or serial, never by name."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone

from agents.contracts import Reason
from benchlab.team.models import OwnedQuerySet, Team

M = TypeVar("M", bound=models.Model)
# a message that was not taken by then is sent again
RESEND_AFTER = timedelta(seconds=10)
# messages per sweep
MAX_PER_SWEEP = 50


def reasons() -> list[tuple[str, str]]:
    """A function, so that a new Reason needs no migration."""
    return [(reason.value, reason.value) for reason in Reason]


class Credential(models.Model):
    """An SSH key pair. The private half is encrypted at rest (benchlab/vault.py)."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="credentials")
    name = models.CharField(max_length=100)
    public_key = models.TextField()
    private_key = models.BinaryField(editable=False)
    uploaded = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OwnedQuerySet["Credential"].as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="credential_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class Host(models.Model):
    class Access(models.TextChoices):
        SSH = "ssh", "SSH"
        DYNAMO = "dynamo", "Managed by dynamo only"
        DESCRIBED = "described", "Not reached: results from it were imported"

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="hosts")
    name = models.CharField(max_length=100)
    access = models.CharField(max_length=10, choices=Access, default=Access.SSH, editable=False)
    address = models.CharField(max_length=255, blank=True)
    port = models.PositiveIntegerField(default=22)
    user = models.CharField(max_length=64, default="root")
    credential = models.ForeignKey(
        Credential, null=True, on_delete=models.PROTECT, related_name="hosts"
    )
    host_key = models.TextField(
        blank=True, help_text="Pinned public host key; empty until it has been confirmed"
    )
    # A key that the host offered and nobody has confirmed: on first contact, or after it changed.
    offered_key = models.TextField(blank=True)
    is_local = models.BooleanField(
        default=False, help_text="This machine, reached through the SSH server that `up` starts"
    )
    notes = models.TextField(blank=True)
    seen_at = models.DateTimeField(null=True, blank=True)
    trouble = models.CharField(max_length=40, blank=True, choices=reasons)
    trouble_text = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OwnedQuerySet["Host"].as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="host_name_once"),
            models.CheckConstraint(
                condition=Q(access="ssh", credential__isnull=False) & ~Q(address="")
                | ~Q(access="ssh") & Q(credential__isnull=True),
                name="host_reached_by_ssh_has_key",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def only_tool(self) -> str:
        """The kind of the one tool that reaches it, and runs there alone; empty: any does, by SSH, or none."""
        return "" if self.access in (self.Access.SSH, self.Access.DESCRIBED) else self.access


class FactSnapshot(models.Model):
    """Facts that agents.facts read of a host, whole. A reading that finds it the same is no new row: `seen_at` moves
    on.
    """

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="snapshots")
    taken_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(
        null=True, blank=True, help_text="Last time that a reading gave the same facts"
    )
    boot_id = models.CharField(max_length=64, blank=True)
    facts = models.JSONField()
    digest = models.CharField(
        max_length=64,
        blank=True,
        default="",
        editable=False,
        help_text="SHA-256 digest of the facts",
    )

    TEAM_PATH = "host__team"
    objects = OwnedQuerySet["FactSnapshot"].as_manager()

    class Meta:
        ordering = ["-pk"]
        get_latest_by = "pk"

    def __str__(self) -> str:
        return f"{self.host} at {self.taken_at:%Y-%m-%d %H:%M:%S}"

    @property
    def read_at(self) -> datetime:
        """Time of the last reading that found these facts."""
        return self.seen_at or self.taken_at


class DueQuerySet(OwnedQuerySet[M]):
    """Rows that a worker works on until they have ended. Messages say that there are some; the sweeper repeats them."""

    def claim_due(self) -> list[int]:
        """Open rows that no worker took, or that died with theirs; they are due again after RESEND_AFTER."""
        now = timezone.now()
        with transaction.atomic():
            due = self.filter(Q(due_at=None) | Q(due_at__lte=now), ended_at=None).order_by("pk")
            free = due.select_for_update(skip_locked=True).only("pk")
            pks = [row.pk for row in free[:MAX_PER_SWEEP]]
            self.filter(pk__in=pks).update(due_at=now + RESEND_AFTER)
        return pks


class PackageInstall(models.Model):
    """Packages that a person had installed: the command, and what became of it."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="installs")
    argv = models.JSONField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    output = models.TextField(blank=True, help_text="End of the command's output")
    trouble = models.TextField(blank=True, help_text="Error message; empty if it did not fail")
    # The worker's: when it began to start it, when it looks again, and why the host did not answer the last time.
    begun_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)
    silence = models.TextField(blank=True)

    TEAM_PATH = "host__team"
    objects = DueQuerySet["PackageInstall"].as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["host"], condition=Q(ended_at=None), name="install_one_open"
            )
        ]

    def __str__(self) -> str:
        return self.command_line

    @property
    def command_line(self) -> str:
        return " ".join(self.argv)

    @property
    def packages(self) -> list[str]:
        """Packages to be installed, behind the installer and its options: no package is named like one."""
        return [word for word in self.argv[2:] if not word.startswith("-") and word != "install"]


class HostTask(models.Model):
    """Work that waits for a host, done by a worker (host_tasks.py): who asked for what, when, and what came of it."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="tasks")
    kind = models.CharField(max_length=40, help_text="Kind of task: a key of host_tasks.KINDS")
    options = models.JSONField(default=dict)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    due_at = models.DateTimeField(help_text="Time at which a worker is notified again")
    started_at = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    ended_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True, help_text="Error message; empty if it did not fail")
    result = models.JSONField(null=True, blank=True)

    TEAM_PATH = "host__team"
    objects = DueQuerySet["HostTask"].as_manager()

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(ended_at=None), name="host_task_open")
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.host}"


class Device(models.Model):
    """A whole disk of a host. `spare` says that we may destroy what is on it: a person confirmed it, by serial."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="devices")
    identity = models.CharField(
        max_length=255, help_text="Stable identifier: wwn:…, serial:… or weak:name:size"
    )
    name = models.CharField(
        max_length=64, help_text="Kernel name when last seen; it may change at each boot"
    )
    model = models.CharField(max_length=255, blank=True)
    serial = models.CharField(max_length=255, blank=True)
    wwn = models.CharField(max_length=255, blank=True)
    size = models.BigIntegerField(help_text="Size in bytes")
    rotational = models.BooleanField(null=True)
    # Of its data sheet, or what the cloud that lends it promises: what findings hold measured rates against.
    rated_iops = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Rated IOPS (op/s); null if unknown",
    )
    rated_bandwidth = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Rated bandwidth (B/s); null if unknown",
    )
    present = models.BooleanField(default=True)
    in_use = models.CharField(
        max_length=255,
        blank=True,
        help_text="Reason why it cannot be marked spare now; empty if it can",
    )
    role = models.CharField(
        max_length=32,
        blank=True,
        help_text="Role by which topologies select disks, e.g. hdd, ssd or nvme",
    )
    spare = models.BooleanField(default=False)
    # What the person saw when confirming; the guard compares it with what is there.
    spare_size = models.BigIntegerField(null=True, blank=True)
    spare_model = models.CharField(max_length=255, blank=True)
    spare_boot = models.CharField(
        max_length=64, blank=True, help_text="Boot ID of the host when the disk was marked spare"
    )
    spare_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    spare_at = models.DateTimeField(null=True, blank=True)

    TEAM_PATH = "host__team"
    objects = OwnedQuerySet["Device"].as_manager()

    class Meta:
        ordering = ["host", "name"]
        constraints = [
            models.UniqueConstraint(fields=["host", "identity"], name="device_identity_once"),
            models.CheckConstraint(
                condition=Q(spare=False) | (Q(spare_size__isnull=False) & ~Q(role="")),
                name="device_spare_confirmed",
            ),
            models.CheckConstraint(
                condition=(Q(rated_iops=None) | Q(rated_iops__gt=0))
                & (Q(rated_bandwidth=None) | Q(rated_bandwidth__gt=0)),
                name="device_rated_positive",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.identity})"

    @property
    def weak(self) -> bool:
        return self.identity.startswith("weak:")

    @property
    def lapsed(self) -> bool:
        """True if marked spare in an earlier boot and known by its name only: refused until it is marked again."""
        if not (self.spare and self.weak):
            return False
        latest = self.host.snapshots.values_list("boot_id", flat=True).first()
        return not self.spare_boot or self.spare_boot != latest

    @property
    def confirmation(self) -> str:
        """Text that a person types to mark it spare: the serial, else the WWN, else name and size."""
        return self.serial or self.wwn or f"{self.name}:{self.size}"


class HostsError(Exception):
    """A request that cannot be met. The text, shown to people, says what is wrong, with what, and what to do."""
