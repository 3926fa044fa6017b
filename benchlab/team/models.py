"""Teams own hosts, topologies, workloads and campaigns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from django.conf import settings
from django.db import models

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

M = TypeVar("M", bound=models.Model, covariant=True)


class TeamQuerySet(models.QuerySet["Team"]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> Self:
        return self.filter(membership__user_id=user.pk) if user.is_authenticated else self.none()


class Team(models.Model):
    name = models.CharField(max_length=100, unique=True)
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="Membership", related_name="teams"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TeamQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    team = models.ForeignKey(Team, on_delete=models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"


class OwnedQuerySet(models.QuerySet[M]):
    """Every list that a person sees starts from `for_user(user)`: deny by default."""

    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> Self:
        if not user.is_authenticated:
            return self.none()
        # Models that reach their team through another one name the path.
        path = getattr(self.model, "TEAM_PATH", "team")
        # A subquery, not a join: a user in two teams must not see a row twice.
        teams = Membership.objects.filter(user_id=user.pk).values("team_id")
        lookup: dict[str, Any] = {f"{path}__in": teams}
        return self.filter(**lookup)
