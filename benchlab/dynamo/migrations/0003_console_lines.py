from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Rename Told to ConsoleLines. The rows are those of runs that are under way."""

    dependencies = [
        ("dynamo", "0002_dynamo_login"),
        ("runs", "0001_initial"),
    ]

    operations = [
        migrations.RenameModel(old_name="Told", new_name="ConsoleLines"),
        migrations.AlterField(
            model_name="consolelines",
            name="attempt",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="console_lines",
                to="runs.attempt",
            ),
        ),
    ]
