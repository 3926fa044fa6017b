"""Campaigns and workloads can be archived and deleted; a name is free again once its workload is deleted."""

from django.db import migrations, models


def added(model):
    when, who = models.DateTimeField(editable=False, null=True), models.CharField(blank=True, default="", editable=False, max_length=200)
    yield migrations.AddField(model, "archived_at", when)
    yield migrations.AddField(model, "archived_by", who, preserve_default=False)
    yield migrations.AddField(model, "deleted_at", when)
    yield migrations.AddField(model, "deleted_by", who, preserve_default=False)
    yield migrations.AddField(model, "going_at", when)


class Migration(migrations.Migration):

    dependencies = [
        ("campaigns", "0003_runs_in_order"),
    ]

    operations = [
        *added("campaign"),
        *added("workload"),
        migrations.RemoveConstraint("workload", "workload_name_once"),
        migrations.AddConstraint(
            "workload",
            models.UniqueConstraint(condition=models.Q(("deleted_at", None)), fields=("team", "name"), name="workload_name_once", violation_error_message="A workload of this name already exists."),
        ),
        migrations.AddIndex(
            "campaign",
            models.Index(condition=models.Q(("deleted_at__isnull", False)), fields=["deleted_at"], name="campaign_deleted"),
        ),
    ]
