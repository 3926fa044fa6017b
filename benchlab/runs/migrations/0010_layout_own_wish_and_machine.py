from django.db import migrations, models

# Until now every layout of a cancelled campaign obeyed its campaign's wish.
WISHES = """
UPDATE runs_layout SET cancelled_at = campaigns_campaign.cancelled_at
FROM campaigns_campaign
WHERE campaigns_campaign.id = runs_layout.campaign_id AND campaigns_campaign.cancelled_at IS NOT NULL
  AND runs_layout.phase NOT IN ('draft', 'done')
"""


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0004_list_indexes"),
        ("hosts", "0004_access"),
        ("runs", "0009_measurement_output"),
        ("topologies", "0002_stages"),
    ]

    operations = [
        migrations.AddField(
            model_name="layout",
            name="cancelled_at",
            field=models.DateTimeField(
                blank=True, help_text="When a person cancelled it, with its campaign", null=True
            ),
        ),
        migrations.AddField(
            model_name="layout",
            name="machine",
            field=models.CharField(blank=True, default="", editable=False, max_length=64),
        ),
        migrations.RunSQL(WISHES, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="layout",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("phase__in", ("provisioning", "ready", "tearing_down", "stuck")),
                    models.Q(("machine", ""), _negated=True),
                ),
                fields=("machine",),
                name="layout_holds_machine",
            ),
        ),
    ]
