"""Which visit a layout is of, and when it was built and taken down; of earlier ones their moves tell."""

from django.db import migrations, models
from django.db.models import Max, Min, OuterRef, Subquery

# field -> (phase that was come to, which of several moves to it)
STAMPS = {
    "begun_at": ("provisioning", Min),
    "ready_at": ("ready", Max),
    "down_at": ("tearing_down", Max),
}


def tell_times(apps, schema_editor):
    layouts = apps.get_model("runs", "Layout").objects
    transitions = apps.get_model("runs", "Transition").objects
    for field, (phase, which) in STAMPS.items():
        # A note of a layout that stays in its phase is no move to it.
        moves = transitions.filter(layout=OuterRef("pk"), attempt=None, new=phase).exclude(old=phase)
        at = moves.order_by().values("layout").annotate(found=which("at")).values("found")
        layouts.update(**{field: Subquery(at)})


class Migration(migrations.Migration):

    dependencies = [
        ("runs", "0001_squashed"),
        ("campaigns", "0002_visits"),
    ]

    operations = [
        migrations.AddField(
            model_name="layout",
            name="visit",
            field=models.PositiveSmallIntegerField(default=1, help_text="Which time that this set-up is built in its campaign (ABBA), from 1"),
        ),
        migrations.AddField(
            model_name="layout",
            name="expected_s",
            field=models.FloatField(default=20, help_text="How long building and taking it down should take together, in s"),
        ),
        migrations.AddField(
            model_name="layout",
            name="begun_at",
            field=models.DateTimeField(blank=True, help_text="When it took its host", null=True),
        ),
        migrations.AddField(
            model_name="layout",
            name="ready_at",
            field=models.DateTimeField(blank=True, help_text="When it was built", null=True),
        ),
        migrations.AddField(
            model_name="layout",
            name="down_at",
            field=models.DateTimeField(blank=True, help_text="When taking it down began, the last time", null=True),
        ),
        migrations.RunPython(tell_times, migrations.RunPython.noop, elidable=True),
    ]
