"""Packages that a person had installed on a host."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("hosts", "0002_trouble_choices"),
    ]

    operations = [
        migrations.CreateModel(
            name="PackageInstall",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("argv", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("exit_code", models.IntegerField(blank=True, null=True)),
                (
                    "output",
                    models.TextField(blank=True, help_text="What it printed, the last of it"),
                ),
                (
                    "trouble",
                    models.TextField(blank=True, help_text="Why it failed, in words; empty: it did not"),
                ),
                (
                    "by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="installs",
                        to="hosts.host",
                    ),
                ),
            ],
            options={"ordering": ["-pk"]},
        ),
        migrations.AddConstraint(
            model_name="packageinstall",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at", None)), fields=("host",), name="install_one_open"
            ),
        ),
    ]
