"""Names of layouts carry the installation's tag. Those that stand already keep their names: no tag."""

from django.db import migrations, models

import benchlab.runs.models


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_glance")]

    operations = [
        migrations.CreateModel(
            name="Installation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tag", models.CharField(max_length=3)),
            ],
        ),
        migrations.AddField(
            model_name="layout",
            name="tag",
            field=models.CharField(default="", editable=False, max_length=3),
        ),
        migrations.AlterField(
            model_name="layout",
            name="tag",
            field=models.CharField(
                default=benchlab.runs.models.installation_tag, editable=False, max_length=3
            ),
        ),
    ]
