from django.db import migrations, models


def seal_what_is_there(apps, schema_editor):
    """The log as it is now: what was cut off before nobody can tell any more."""
    from benchlab.audit import heads

    entries = apps.get_model("audit", "Entry").objects
    last = entries.order_by("-pk").first()
    told = heads.Told(entries.count(), last.pk, last.digest) if last else heads.Told()
    apps.get_model("audit", "Head").objects.create(
        pk=1, entries=told.entries, entry=told.entry, digest=told.digest, seal=heads.seal(told)
    )


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Head",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entries", models.BigIntegerField(default=0)),
                ("entry", models.BigIntegerField(default=0, help_text="The last one's id")),
                ("digest", models.CharField(blank=True, help_text="The last one's", max_length=64)),
                ("seal", models.CharField(blank=True, max_length=64)),
            ],
        ),
        migrations.RunPython(seal_what_is_there, migrations.RunPython.noop),
        # TRUNCATE fires no trigger of a row.
        migrations.RunSQL(
            """
            CREATE TRIGGER audit_entry_not_emptied BEFORE TRUNCATE ON audit_entry
                FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_stays();
            CREATE TRIGGER audit_head_not_emptied BEFORE TRUNCATE OR DELETE ON audit_head
                FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_stays();
            """,
            """
            DROP TRIGGER audit_entry_not_emptied ON audit_entry;
            DROP TRIGGER audit_head_not_emptied ON audit_head;
            """,
        ),
    ]
