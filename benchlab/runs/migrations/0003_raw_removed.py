"""When an attempt's raw output was removed by its team's rule, and of how many days that was."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("runs", "0002_visits"),
    ]

    operations = [
        migrations.AddField("attempt", "raw_removed_at", models.DateTimeField(blank=True, editable=False, null=True)),
        migrations.AddField("attempt", "raw_removed_after", models.PositiveIntegerField(blank=True, editable=False, null=True)),
    ]
