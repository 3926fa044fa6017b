import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0003_runs_in_order"),
        ("sharing", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ReportText",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("place", models.CharField(choices=[("opening", "Introduction"), ("setup", "On hosts and set-ups"), ("results", "On the results"), ("closing", "Conclusions")], max_length=10)),
                ("text", models.TextField(blank=True, max_length=10000)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                ("by", models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ("campaign", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="report_texts", to="campaigns.campaign")),
            ],
            options={
                "ordering": ["campaign", "place"],
                "constraints": [models.UniqueConstraint(fields=("campaign", "place"), name="report_text_once")],
            },
        ),
    ]
