"""A host's, topology's or workload's runs in order: the table of runs finds a page's without reading the others."""

import django.db.models.deletion
from django.db import migrations, models


def without_index(noun, model):
    return migrations.AlterField(
        model_name="run",
        name=noun,
        field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="runs", to=model),
    )


def in_order(noun):
    index = models.Index(fields=[noun, "id"], name=f"run_by_{noun}")
    return migrations.AddIndex(model_name="run", index=index)


class Migration(migrations.Migration):

    dependencies = [
        ("campaigns", "0002_visits"),
    ]

    operations = [
        in_order("host"),
        in_order("topology"),
        in_order("workload"),
        without_index("host", "hosts.host"),
        without_index("topology", "topologies.topology"),
        without_index("workload", "campaigns.workload"),
    ]
