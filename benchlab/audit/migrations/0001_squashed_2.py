# One file of what were 3, before anything was released.

from django.db import migrations, models


def seal_the_empty_log(apps, schema_editor):
    from benchlab.audit import heads

    told = heads.Told()
    apps.get_model("audit", "Head").objects.create(
        pk=1, entries=told.entries, entry=told.entry, digest=told.digest, seal=heads.seal(told)
    )


class Migration(migrations.Migration):

    initial = True

    # A state directory that has all of these has this one.
    replaces = [
        ("audit", "0001_initial"),
        ("audit", "0002_head"),
        ("audit", "0001_squashed"),
        ("audit", "0002_sorted_log"),
    ]

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Entry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('actor_id', models.BigIntegerField(null=True)),
                ('actor', models.CharField(help_text='User name at that time; empty for the engine', max_length=200)),
                ('via', models.CharField(help_text='Interface used: page, api, engine, or the name of an API token', max_length=100)),
                ('address', models.CharField(blank=True, help_text='IP address of the client', max_length=64)),
                ('team_id', models.BigIntegerField(db_index=True, null=True)),
                ('action', models.CharField(help_text='Action, e.g. campaign-start, host.create or destroy', max_length=100)),
                ('subject', models.CharField(blank=True, help_text='Object of the action, as text', max_length=500)),
                ('outcome', models.CharField(help_text='Outcome: done, refused or failed', max_length=20)),
                ('details', models.JSONField(default=dict)),
                ('previous', models.CharField(blank=True, max_length=64)),
                ('digest', models.CharField(max_length=64)),
            ],
            options={
                'verbose_name_plural': 'entries',
                'ordering': ['-pk'],
                # The log is read in the order of its columns, each with the id behind it (benchlab/pages/audit).
                'indexes': [
                    models.Index(fields=['at', 'id'], name='audit_by_at'),
                    models.Index(fields=['actor', 'id'], name='audit_by_actor'),
                    models.Index(fields=['action', 'id'], name='audit_by_action'),
                    models.Index(fields=['outcome', 'id'], name='audit_by_outcome'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Head',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('entries', models.BigIntegerField(default=0)),
                ('entry', models.BigIntegerField(default=0, help_text='ID of the last entry')),
                ('digest', models.CharField(blank=True, help_text='Digest of the last entry', max_length=64)),
                ('seal', models.CharField(blank=True, max_length=64)),
            ],
        ),
        # The log only grows, whoever asks: also a superuser's shell must drop the triggers first, and the chain tells.
        # TRUNCATE fires no trigger of a row.
        migrations.RunSQL(
            """
            CREATE FUNCTION audit_entry_stays() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                RAISE EXCEPTION 'audit entries are neither changed nor deleted';
            END $$;
            CREATE TRIGGER audit_entry_stays BEFORE UPDATE OR DELETE ON audit_entry
                FOR EACH ROW EXECUTE FUNCTION audit_entry_stays();
            CREATE TRIGGER audit_entry_not_emptied BEFORE TRUNCATE ON audit_entry
                FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_stays();
            CREATE TRIGGER audit_head_not_emptied BEFORE TRUNCATE OR DELETE ON audit_head
                FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_stays();
            """,
            """
            DROP TRIGGER audit_head_not_emptied ON audit_head;
            DROP TRIGGER audit_entry_not_emptied ON audit_entry;
            DROP TRIGGER audit_entry_stays ON audit_entry;
            DROP FUNCTION audit_entry_stays();
            """,
        ),
        migrations.RunPython(seal_the_empty_log, migrations.RunPython.noop),
    ]
