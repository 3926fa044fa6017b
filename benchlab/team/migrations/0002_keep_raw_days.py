"""A team's rule on raw output; empty: it is kept for ever."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("team", "0001_squashed"),
    ]

    operations = [
        migrations.AddField(
            "team",
            "keep_raw_days",
            models.PositiveIntegerField(
                blank=True,
                help_text="Raw output and samples of a campaign are removed so many days after it has ended; its figures stay. Empty: they are kept for ever",
                null=True,
                validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(36500)],
                verbose_name="days to keep raw output",
            ),
        ),
    ]
