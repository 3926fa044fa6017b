# SPDX-License-Identifier: Apache-2.0
"""Teams own hosts, topologies, workloads and campaigns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from benchlab.team import soft_delete
from benchlab.team.guests import Guest
from benchlab.team.roles import Role, highest_role, only_team, required_role

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

M = TypeVar("M", bound=models.Model, covariant=True)


class OwnedQuerySet(models.QuerySet[M]):
    """Every list that a person sees starts from `for_user(user)`: deny by default."""

    _teams_first = False

    def teams_first(self) -> Self:
        """Make the next `for_user` or `visible_to` query the teams before the rows, as lists need it.

        With the ids of the teams in the statement PostgreSQL knows how many rows they have. It neither reads all rows
        of a large team to sort them, nor walks through everybody's rows to find those of a small team.
        """
        rows = self.all()
        rows._teams_first = True
        return rows

    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> Self:
        """Rows of teams where the user has the role that this request needs."""
        if not user.is_authenticated:
            return self.none()
        # A subquery, not a join: a user in two teams must not see a row twice.
        return self._in_teams(teams_of(user).values_list("team_id", flat=True))

    def visible_to(self, user: AbstractBaseUser | AnonymousUser) -> Self:
        """Rows of `for_user` and of the reference library, for pages that only show. Changes must use `for_user`."""
        if isinstance(user, Guest):
            return self.not_deleted().filter(user.rows_of(self.model))
        if not user.is_authenticated:
            return self.none()
        mine = Q(pk__in=teams_of(user).values("team_id"))
        return self._in_teams(
            Team.objects.filter(mine | Q(library=True)).values_list("pk", flat=True)
        )

    def _in_teams(self, teams: models.QuerySet[Any, int]) -> Self:
        # Models that reach their team through another one name the path.
        path = getattr(self.model, "TEAM_PATH", "team")
        lookup: dict[str, Any] = {f"{path}__in": list(teams) if self._teams_first else teams}
        return self.filter(**lookup, **soft_delete.not_deleted_filter(self.model))

    def not_deleted(self) -> Self:
        """Rows that are not part of anything deleted; `for_user` and `visible_to` apply it themselves."""
        return self.filter(**soft_delete.not_deleted_filter(self.model))

    def current(self) -> Self:
        """Rows that lists, pickers, Home and the search begin with: those that are not archived, nor part of such."""
        return self.filter(**soft_delete.current_filter(self.model))

    def archived(self) -> Self:
        """Archived rows, as a list's *Archived* shows them."""
        return self.filter(**soft_delete.archived_filter(self.model))


class UndeletedQuerySet(OwnedQuerySet[M]):
    """Rows that can be deleted (soft_delete.py). The manager hides deleted ones; a row's own relations do not."""

    # mypy knows the manager by its class's name and base, and takes it for the one that Django makes.
    if not TYPE_CHECKING:

        @classmethod
        def as_manager(cls) -> models.Manager[Any]:
            manager = models.Manager.from_queryset(cls)
            manager.get_queryset = lambda self: (
                super(manager, self).get_queryset().filter(soft_delete.NOT_DELETED)
            )
            return manager()


class TeamQuerySet(models.QuerySet["Team"]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> Self:
        return self.filter(pk__in=teams_of(user).values("team_id"))


class Team(models.Model):
    name = models.CharField(max_length=100, unique=True)
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="Membership", related_name="teams"
    )
    # The one team without members: everybody may read its rows and nobody may change them.
    library = models.BooleanField(default=False, editable=False)
    require_mfa = models.BooleanField(
        "second factor demanded",
        default=False,
        help_text="Members cannot access the team until they have set up a second factor.",
    )
    keep_raw_days = models.PositiveIntegerField(
        "days to keep raw output",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(36500)],
        help_text="Raw output and samples of a campaign are removed so many days after it has ended; its figures stay. "
        "Empty: they are kept for ever",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TeamQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["library"], condition=Q(library=True), name="team_one_library"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    team = models.ForeignKey(Team, on_delete=models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    role = models.CharField(max_length=10, choices=Role, default=Role.OWNER)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"


class Invitation(models.Model):
    """A link that lets one person into the team, once (benchlab/team/invitations.py). The link itself is not kept."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    email = models.EmailField(
        "e-mail",
        blank=True,
        help_text="E-mail address of the person invited. The link works for anyone who has it.",
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, editable=False)
    used_at = models.DateTimeField(null=True, editable=False)
    used_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.email or 'somebody'} into {self.team}"

    @property
    def state(self) -> str:
        if self.used_at:
            return "used"
        if self.revoked_at:
            return "revoked"
        return "expired" if self.expires_at <= timezone.now() else "open"


def teams_of(user: AbstractBaseUser | AnonymousUser) -> models.QuerySet[Membership]:
    """The user's memberships in the role that this request needs (benchlab/team/permissions.py), or in a higher one."""
    memberships = Membership.objects.filter(
        user_id=user.pk or 0, user__is_active=True, role__in=required_role(user).and_above
    )
    return memberships.filter(team=team) if (team := only_team(user)) else memberships


def has_role(user: AbstractBaseUser | AnonymousUser, team_id: int, role: Role) -> bool:
    """True if the user has at least this role in the team, and their token, if any, allows it."""
    if role not in highest_role(user).and_below or only_team(user) not in (None, team_id):
        return False
    mine = Membership.objects.filter(team=team_id, user_id=user.pk or 0, user__is_active=True)
    return mine.filter(role__in=role.and_above).exists()


class ApiToken(models.Model):
    """Token with which a script acts as a person, within limits (benchlab/team/tokens.py). A revoked one is deleted."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.CharField(max_length=100)
    role = models.CharField("highest role", max_length=10, choices=Role, default=Role.VIEWER)
    team = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        help_text="Limit the token to this team. If empty, it works in all teams of its user.",
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)
    shown = models.CharField(
        max_length=12, editable=False, help_text="First characters of the token"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.name} ({self.shown}…)"

    @property
    def expired(self) -> bool:
        return self.expires_at <= timezone.now()
