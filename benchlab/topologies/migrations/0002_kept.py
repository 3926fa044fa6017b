"""Topologies can be archived and deleted; a name is free again once its topology is deleted."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("team", "0001_squashed"),
        ("topologies", "0001_squashed"),
    ]

    operations = [
        migrations.AddField("topology", "archived_at", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("topology", "archived_by", models.CharField(blank=True, default="", editable=False, max_length=200), preserve_default=False),
        migrations.AddField("topology", "deleted_at", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("topology", "deleted_by", models.CharField(blank=True, default="", editable=False, max_length=200), preserve_default=False),
        migrations.AddField("topology", "going_at", models.DateTimeField(editable=False, null=True)),
        migrations.RemoveConstraint("topology", "topology_name_once"),
        migrations.AddConstraint(
            "topology",
            models.UniqueConstraint(condition=models.Q(("deleted_at", None)), fields=("team", "name"), name="topology_name_once", violation_error_message="A topology of this name already exists."),
        ),
    ]
