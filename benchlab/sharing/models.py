# SPDX-License-Identifier: Apache-2.0
"""Models of comments, tags, stars and guests' links. A row is identified by its kind and id (discussion.py)."""

from __future__ import annotations

from typing import Self, TypeVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Q
from django.utils import timezone

from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.team.models import OwnedQuerySet, Team
from benchlab.topologies.models import Topology
from benchlab.web.texts import MAX_TEXT_LENGTH

# As many as the palette has (benchlab/charts/palette.py); sharing.css has one class for each
COLOURS = 7
# characters
MOST_QUERY = 2000
M = TypeVar("M", bound=models.Model, covariant=True)


class Kind(models.TextChoices):
    """Kind of row that can be discussed."""

    HOST = "host", "Host"
    TOPOLOGY = "topology", "Topology"
    WORKLOAD = "workload", "Workload"
    CAMPAIGN = "campaign", "Campaign"
    RUN = "run", "Run"


def of_deleted() -> Q:
    """Return the filter for rows about something deleted, or about a run of it."""
    deleted_filter = Q(pk__in=[])
    for kind, model in (
        (Kind.TOPOLOGY, Topology),
        (Kind.WORKLOAD, Workload),
        (Kind.CAMPAIGN, Campaign),
    ):
        deleted_rows = model.even_deleted.exclude(deleted_at=None).order_by()
        deleted_filter |= Q(kind=kind, object_id__in=deleted_rows.values("pk"))
    gone_runs = Run.objects.exclude(campaign__deleted_at=None).order_by()
    return deleted_filter | Q(kind=Kind.RUN, object_id__in=gone_runs.values("pk"))


class AboutQuerySet(OwnedQuerySet[M]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> Self:
        return super().for_user(user).exclude(of_deleted())


class About(models.Model):
    """Subject of five possible models, so without a foreign key.

    Deleting the subject deletes these rows (discussion.delete_discussion).
    """

    kind = models.CharField(max_length=10, choices=Kind)
    object_id = models.BigIntegerField()

    class Meta:
        abstract = True


class Comment(About):
    """Plain text; pages render it escaped (benchlab/sharing/discussion.py)."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="comments")
    text = models.TextField(max_length=MAX_TEXT_LENGTH)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    edited_at = models.DateTimeField(null=True, editable=False)

    objects = AboutQuerySet["Comment"].as_manager()

    class Meta:
        ordering = ["pk"]
        indexes = [models.Index(fields=["kind", "object_id"], name="comment_of")]

    def __str__(self) -> str:
        return self.text[:60]


class Tag(models.Model):
    """A word of the team's, with a colour of the palette."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=40)
    colour = models.PositiveSmallIntegerField(default=0)

    objects = OwnedQuerySet["Tag"].as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="tag_name_once"),
            models.CheckConstraint(condition=Q(colour__lt=COLOURS), name="tag_colour_known"),
        ]

    def __str__(self) -> str:
        return self.name


class Tagging(About):
    """A row has a tag."""

    tag = models.ForeignKey(Tag, on_delete=models.CASCADE, related_name="taggings")

    TEAM_PATH = "tag__team"
    objects = AboutQuerySet["Tagging"].as_manager()

    class Meta:
        ordering = ["tag__name"]
        constraints = [
            models.UniqueConstraint(fields=["kind", "object_id", "tag"], name="tagging_once")
        ]

    def __str__(self) -> str:
        return f"{self.tag} on {self.kind} {self.object_id}"


class Note(About):
    """The text that a row's team keeps beside it; a row has at most one."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="notes")
    text = models.TextField(max_length=MAX_TEXT_LENGTH, blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    changed_at = models.DateTimeField(auto_now=True)

    objects = AboutQuerySet["Note"].as_manager()

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["kind", "object_id"], name="note_once")]

    def __str__(self) -> str:
        return f"note on {self.kind} {self.object_id}"


class WrittenText(models.Model):
    """Text of a team in a report, at one of its places (benchlab/sharing/report.py)."""

    class Place(models.TextChoices):
        OPENING = "opening", "Introduction"
        SETUP = "setup", "On hosts and set-ups"
        RESULTS = "results", "On the results"
        CLOSING = "closing", "Conclusions"

    place = models.CharField(max_length=10, choices=Place)
    text = models.TextField(max_length=MAX_TEXT_LENGTH, blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class ReportText(WrittenText):
    """Text in a campaign's report."""

    campaign = models.ForeignKey(
        "campaigns.Campaign", on_delete=models.CASCADE, related_name="report_texts"
    )

    TEAM_PATH = "campaign__team"
    objects = OwnedQuerySet["ReportText"].as_manager()

    class Meta:
        ordering = ["campaign", "place"]
        constraints = [
            models.UniqueConstraint(fields=["campaign", "place"], name="report_text_once")
        ]

    def __str__(self) -> str:
        return f"{self.place} of campaign {self.campaign_id}"


class StarQuerySet(models.QuerySet["Star"]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> StarQuerySet:
        """Select a person's own rows, whatever their teams; pages check which of the subjects they still see."""
        return self.filter(user_id=user.pk or 0).exclude(of_deleted())


class Star(About):
    """Personal: what somebody wants to find again on their home page."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="stars"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = StarQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["user", "kind", "object_id"], name="star_once")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.object_id}"


class SavedViewQuerySet(OwnedQuerySet["SavedView"]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> Self:
        """Select the team's and the person's own."""
        return super().for_user(user).filter(Q(for_team=True) | Q(by_id=user.pk or 0))


class SavedView(models.Model):
    """A comparison under a name."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=100)
    query = models.CharField(max_length=MOST_QUERY, help_text="Query string of the comparison page")
    for_team = models.BooleanField(
        default=True, help_text="Visible to the whole team; otherwise only to its creator"
    )
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SavedViewQuerySet.as_manager()

    class Meta:
        ordering = ["name", "pk"]
        # Somebody else's of the same name is another: a personal one must not tell that it exists.
        constraints = [
            models.UniqueConstraint(fields=["team", "by", "name"], name="saved_view_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class ViewTextQuerySet(OwnedQuerySet["ViewText"]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> Self:
        return super().for_user(user).filter(view__in=SavedView.objects.for_user(user))


class ViewText(WrittenText):
    """Text in a saved comparison's report."""

    view = models.ForeignKey(SavedView, on_delete=models.CASCADE, related_name="report_texts")

    TEAM_PATH = "view__team"
    objects = ViewTextQuerySet.as_manager()

    class Meta:
        ordering = ["view", "place"]
        constraints = [models.UniqueConstraint(fields=["view", "place"], name="view_text_once")]

    def __str__(self) -> str:
        return f"{self.place} of view {self.view_id}"


class MadeReportQuerySet(models.QuerySet["MadeReport"]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> MadeReportQuerySet:
        """Select the person's own: a report shows what its requester saw. Downloads check if they still see it."""
        return self.filter(by_id=user.pk or 0)


class MadeReport(models.Model):
    """A report as PDF or Markdown, as its requester saw it. A worker makes it from the report's page.

    Made once `content` is there, or `trouble` says why it could not be.
    """

    class Format(models.TextChoices):
        PDF = "pdf", "PDF"
        MARKDOWN = "markdown", "Markdown with pictures"

    campaign = models.ForeignKey(
        "campaigns.Campaign", null=True, on_delete=models.CASCADE, related_name="made_reports"
    )
    view = models.ForeignKey(
        SavedView, null=True, on_delete=models.CASCADE, related_name="made_reports"
    )
    shown = models.JSONField(default=list, help_text="IDs of the campaigns in the report")
    format = models.CharField(max_length=10, choices=Format)
    query = models.CharField(
        max_length=MOST_QUERY, blank=True, help_text="Query string of the report's page"
    )
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    asked_at = models.DateTimeField(auto_now_add=True, db_index=True)
    page = models.BinaryField(help_text="Report as a single HTML file; empty once the file is made")
    tries = models.PositiveSmallIntegerField(default=0)
    content = models.BinaryField(null=True)
    size = models.BigIntegerField(default=0, help_text="Size in bytes")
    note = models.TextField(blank=True, help_text="Omitted parts, with the reason")
    trouble = models.TextField(blank=True, help_text="Error message if it could not be made")
    made_at = models.DateTimeField(null=True)

    objects = MadeReportQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(campaign=None, view__isnull=False)
                | Q(campaign__isnull=False, view=None),
                name="made_report_of_one",
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_format_display()} of {self.campaign or self.view}"

    @property
    def is_ready(self) -> bool:
        return self.made_at is not None


class ShareQuerySet(OwnedQuerySet["Share"]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> Self:
        """Leave out links to something deleted: they open nothing until it is restored."""
        deleted_campaigns = Campaign.even_deleted.exclude(deleted_at=None).order_by().values("pk")
        whole = Q(
            kind__in=(Share.Kind.CAMPAIGN, Share.Kind.REPORT), object_id__in=deleted_campaigns
        )
        return super().for_user(user).exclude(whole | of_deleted())


class Share(models.Model):
    """A link that shows one thing to whoever has it (benchlab/sharing/links.py). The link itself is not kept."""

    class Kind(models.TextChoices):
        RUN = "run", "A run"
        COMPARISON = "comparison", "A comparison"
        VIEW = "view", "A saved view, as it was then"
        CAMPAIGN = "campaign", "A campaign: its charts and tables"
        REPORT = "report", "A campaign's report"

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="shares")
    kind = models.CharField(max_length=10, choices=Kind)
    object_id = models.BigIntegerField(null=True, help_text="ID of the run, campaign or saved view")
    query = models.CharField(
        max_length=MOST_QUERY,
        blank=True,
        help_text="Query string of the comparison page, for comparisons and views",
    )
    name = models.CharField(
        max_length=200, help_text="Description of the shared content, for the team"
    )
    hide_hosts = models.BooleanField(default=True)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, editable=False)
    views = models.PositiveBigIntegerField(default=0, editable=False)
    viewed_at = models.DateTimeField(null=True, editable=False)

    objects = ShareQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        if self.revoked_at:
            return "revoked"
        return "expired" if self.expires_at <= timezone.now() else "open"


class Event(models.Model):
    """An event in the feed. It has no table: benchlab/sharing/activity.py collects events from others."""

    at = models.DateTimeField()
    source = models.CharField(max_length=10)
    who = models.CharField(max_length=200)
    says = models.CharField(max_length=700)
    url = models.CharField(max_length=300)

    class Meta:
        managed = False

    def __str__(self) -> str:
        return f"{self.who} {self.says}"
