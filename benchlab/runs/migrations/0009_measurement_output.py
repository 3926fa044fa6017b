from django.db import migrations, models

# Of imported results it is known; `manage.py reparse` tells it of those that were measured here.
IMPORTED = """
UPDATE runs_measurement SET output = runs_attempt.meta -> 'readers' -> 0 ->> 0
FROM runs_attempt
WHERE runs_attempt.id = runs_measurement.attempt_id AND runs_measurement.line > 0 AND runs_attempt.meta ? 'readers'
"""


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0008_list_indexes"),
    ]

    operations = [
        migrations.AddField(
            model_name="measurement",
            name="output",
            field=models.CharField(
                blank=True, default="", help_text="The artifact whose line that is", max_length=200
            ),
        ),
        migrations.RunSQL(IMPORTED, migrations.RunSQL.noop),
    ]
