"""The order ABBA: each layout is built in several visits. What was there before was built once."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("campaigns", "0001_squashed"),
    ]

    operations = [
        migrations.AddField(
            model_name="campaign",
            name="visits",
            field=models.PositiveSmallIntegerField(default=1, help_text="How often each layout is built; more than once in the order ABBA"),
        ),
        migrations.AddField(
            model_name="run",
            name="visit",
            field=models.PositiveSmallIntegerField(default=1, help_text="Which time that its layout is built it belongs to (ABBA), from 1"),
        ),
        migrations.AlterField(
            model_name="campaign",
            name="order",
            field=models.CharField(choices=[("random_blocks", "Randomised blocks (each repeat in a new random order)"), ("as_written", "As written"), ("abba", "ABBA (each layout is built in several visits, which take turns)")], default="random_blocks", max_length=20),
        ),
    ]
