from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0012_large_artifacts")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="windows",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="What the tool did when; means are over what it measured",
            ),
        ),
    ]
