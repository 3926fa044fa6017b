from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("runs", "0001_squashed_3")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="course",
            field=models.JSONField(
                blank=True,
                default=dict,
                editable=False,
                help_text="Course of its rate while it measured; {}: not judged",
            ),
        ),
    ]
