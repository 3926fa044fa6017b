"""Layouts that wait for a person."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0004_stages")]

    operations = [
        migrations.AddField(
            model_name="layout",
            name="built",
            field=models.PositiveSmallIntegerField(
                default=0, help_text="Layers that stood when a person was asked"
            ),
        ),
        migrations.AddField(
            model_name="layout",
            name="applied",
            field=models.PositiveIntegerField(default=0, help_text="Commands that had built them"),
        ),
        migrations.AddField(
            model_name="layout",
            name="asked",
            field=models.PositiveSmallIntegerField(
                default=0, help_text="The layer that a person was asked to make, from 1"
            ),
        ),
        migrations.AddField(
            model_name="layout",
            name="needs_person",
            field=models.TextField(
                blank=True, default="", help_text="What a person must do; empty: nobody is needed"
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="layout",
            name="person_said_at",
            field=models.DateTimeField(
                blank=True, help_text="When a person said that it is done", null=True
            ),
        ),
        migrations.AddField(
            model_name="layout",
            name="person_trouble",
            field=models.TextField(
                blank=True, default="", help_text="Why what the person did was not accepted"
            ),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="steplog",
            name="kind",
            field=models.CharField(
                choices=[
                    ("apply", "Apply"),
                    ("undo", "Undo"),
                    ("teardown", "Teardown"),
                    ("check", "Check"),
                ],
                max_length=10,
            ),
        ),
    ]
