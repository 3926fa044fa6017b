"""What charts read of a long run. Runs from before have none, and are read by their series until they are parsed again."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("runs", "0004_schedulers"),
    ]

    operations = [
        migrations.CreateModel(
            "Strip",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("clock", models.PositiveSmallIntegerField()),
                ("sampler", models.CharField(blank=True, max_length=40)),
                ("metric", models.CharField(blank=True, max_length=40)),
                ("unit", models.CharField(blank=True, max_length=8)),
                ("every", models.PositiveSmallIntegerField()),
                ("first", models.PositiveIntegerField(help_text="Which of the clock's samples is its first")),
                ("devices", django.contrib.postgres.fields.ArrayField(models.CharField(max_length=255))),
                ("most", django.contrib.postgres.fields.ArrayField(models.FloatField(), help_text="Of each device; NaN where nothing is known")),
                ("data", models.BinaryField()),
                ("attempt", models.ForeignKey(on_delete=models.deletion.CASCADE, related_name="strips", to="runs.attempt")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["attempt", "every", "clock", "sampler", "metric", "unit", "first"], name="strip_once"
                    )
                ]
            },
        ),
        # Numbers that jump are not compressed, so they need not be tried to be.
        migrations.RunSQL("ALTER TABLE runs_strip ALTER COLUMN data SET STORAGE EXTERNAL", migrations.RunSQL.noop),
    ]
