"""I/O schedulers that a layout's runs ask for. What was there before asked for none."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("runs", "0003_raw_removed"),
    ]

    operations = [
        migrations.AddField(
            model_name="layout",
            name="schedulers",
            field=models.JSONField(blank=True, default=list, help_text="I/O schedulers that its runs ask for"),
        ),
    ]
