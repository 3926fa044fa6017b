"""I/O schedulers as a factor within a layout. What was there before asked for none."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("campaigns", "0004_kept"),
    ]

    operations = [
        migrations.AddField(
            model_name="campaign",
            name="schedulers",
            field=models.JSONField(blank=True, default=list, help_text="I/O schedulers of the disks below: each point is measured with each; empty: as the host has it"),
        ),
        migrations.AddField(
            model_name="run",
            name="scheduler",
            field=models.CharField(blank=True, default="", help_text="I/O scheduler that is set on the layout's disks before it; empty: it stays as it is", max_length=20),
        ),
    ]
