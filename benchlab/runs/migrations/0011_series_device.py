from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0010_layout_own_wish_and_machine"),
    ]

    operations = [
        migrations.AlterField("series", "device", models.CharField(blank=True, max_length=255)),
    ]
