from django.db import migrations, models
from django.db.models import deletion


class Migration(migrations.Migration):
    dependencies = [("imports", "0003_storing")]

    operations = [
        migrations.AddField(
            model_name="draftfile", name="packed", field=models.BooleanField(default=False)
        ),
        migrations.CreateModel(
            name="DraftPart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("content", models.BinaryField()),
                (
                    "file",
                    models.ForeignKey(
                        on_delete=deletion.CASCADE, related_name="parts", to="imports.draftfile"
                    ),
                ),
            ],
            options={
                "ordering": ["file", "number"],
                "constraints": [
                    models.UniqueConstraint(fields=["file", "number"], name="draft_part_number_once")
                ],
            },
        ),
        # Not compressed: a slice of it is then read without what stands before.
        migrations.RunSQL(
            "ALTER TABLE imports_draftfile ALTER COLUMN content SET STORAGE EXTERNAL",
            "ALTER TABLE imports_draftfile ALTER COLUMN content SET STORAGE EXTENDED",
        ),
    ]
