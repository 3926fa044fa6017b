from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0013_attempt_windows"),
    ]

    operations = [
        migrations.AddField(
            model_name="layout",
            name="discarded",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="layout",
            name="rebuilds",
            field=models.PositiveSmallIntegerField(default=0),
        ),
    ]
