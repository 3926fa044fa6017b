# One file of what were 20, before anything was released.

import benchlab.runs.models
import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    # A state directory that has all of these has this one.
    replaces = [
        ("runs", "0001_initial"),
        ("runs", "0002_glance"),
        ("runs", "0003_installation_tag"),
        ("runs", "0004_stages"),
        ("runs", "0005_person"),
        ("runs", "0006_measurement_line"),
        ("runs", "0007_layout_confirmed_by"),
        ("runs", "0008_list_indexes"),
        ("runs", "0009_measurement_output"),
        ("runs", "0010_layout_own_wish_and_machine"),
        ("runs", "0011_series_device"),
        ("runs", "0012_large_artifacts"),
        ("runs", "0013_attempt_windows"),
        ("runs", "0014_layout_rebuilds"),
        ("runs", "0015_on_degraded"),
        ("runs", "0001_squashed"),
        ("runs", "0002_visits"),
        ("runs", "0003_raw_removed"),
        ("runs", "0004_schedulers"),
        ("runs", "0005_strips"),
        ("runs", "0001_squashed_2"),
        ("runs", "0003_histograms"),
    ]

    dependencies = [
        ('campaigns', '0001_squashed_2'),
        ('hosts', '0001_squashed_2'),
        ('topologies', '0001_squashed_2'),
    ]

    operations = [
        migrations.CreateModel(
            name='Installation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tag', models.CharField(max_length=3)),
            ],
        ),
        migrations.CreateModel(
            name='Layout',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('stack', models.JSONField(help_text="Copy of the topology's stack")),
                ('stages', models.JSONField(blank=True, default=list, help_text="Copy of the topology's stages")),
                ('measure_resync', models.BooleanField(default=False)),
                ('on_degraded', models.CharField(choices=[('stop', 'Stop: measure no more on it'), ('measure', 'Measure on, and mark every run')], default='stop', max_length=10)),
                ('tag', models.CharField(default=benchlab.runs.models.installation_tag, editable=False, max_length=3)),
                ('machine', models.CharField(blank=True, default='', editable=False, max_length=64)),
                ('cancelled_at', models.DateTimeField(blank=True, help_text='Time at which it was cancelled, with its campaign', null=True)),
                ('position', models.PositiveIntegerField(default=0)),
                ('phase', models.CharField(choices=[('draft', 'plan not confirmed'), ('waiting', 'waiting for the host'), ('provisioning', 'Provisioning'), ('ready', 'running its runs'), ('tearing_down', 'tearing down'), ('stuck', 'stuck: a person must look'), ('done', 'Done')], default='draft', max_length=20)),
                ('outcome', models.CharField(blank=True, choices=[('succeeded', 'Succeeded'), ('failed', 'Failed'), ('errored', 'Errored'), ('interrupted', 'Interrupted'), ('cancelled', 'Cancelled'), ('skipped', 'Skipped')], max_length=20)),
                ('reason', models.CharField(blank=True, max_length=40)),
                ('reason_text', models.TextField(blank=True)),
                ('plan', models.JSONField(blank=True, null=True)),
                ('plan_fingerprint', models.CharField(blank=True, max_length=64)),
                ('plan_error', models.TextField(blank=True)),
                ('planned_at', models.DateTimeField(blank=True, null=True)),
                ('confirmed_fingerprint', models.CharField(blank=True, max_length=64)),
                ('confirmed_by', models.CharField(blank=True, help_text='User who confirmed the plan', max_length=200)),
                ('glance', models.CharField(blank=True, max_length=64)),
                ('looked_at', models.DateTimeField(blank=True, null=True)),
                ('degraded', models.JSONField(blank=True, default=list, help_text='Faults found by the last check, as text')),
                ('log_end', models.FloatField(blank=True, help_text='Timestamp up to which the kernel log has been read', null=True)),
                ('stage', models.PositiveSmallIntegerField(default=0, help_text='Number of stages that have begun')),
                ('followed', models.PositiveSmallIntegerField(default=0, help_text='Number of stages that the layers above have followed')),
                ('settled', models.BooleanField(default=False, help_text='True if nothing is awaited and all layers have followed the last stage')),
                ('progress', models.JSONField(blank=True, default=list)),
                ('awaited_until', models.DateTimeField(blank=True, help_text='Estimated end of what is awaited, as reported by the host', null=True)),
                ('built', models.PositiveSmallIntegerField(default=0, help_text='Number of layers built when a manual step was requested')),
                ('applied', models.PositiveIntegerField(default=0, help_text='Number of commands that had built these layers')),
                ('asked', models.PositiveSmallIntegerField(default=0, help_text='Number of the layer that requires a manual step, from 1')),
                ('needs_person', models.TextField(blank=True, help_text='Manual step required; empty if none')),
                ('person_said_at', models.DateTimeField(blank=True, help_text='Time at which the manual step was reported as done', null=True)),
                ('person_trouble', models.TextField(blank=True, help_text='Reason why the manual step was not accepted')),
                ('rebuilds', models.PositiveSmallIntegerField(default=0)),
                ('discarded', models.PositiveIntegerField(default=0)),
                ('teardown_tries', models.PositiveSmallIntegerField(default=0)),
                ('next_step_at', models.DateTimeField(blank=True, help_text="Time of the engine's next step", null=True)),
                ('seen_at', models.DateTimeField(blank=True, help_text='Last response from the host', null=True)),
                ('trouble', models.TextField(blank=True, help_text='Reason why the last step failed; empty if it succeeded')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('campaign', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='layouts', to='campaigns.campaign')),
                ('facts_after', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='hosts.factsnapshot')),
                ('facts_planned', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='hosts.factsnapshot')),
                ('facts_ready', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='hosts.factsnapshot')),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='layouts', to='hosts.host')),
                ('topology', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='layouts', to='topologies.topology')),
                ('visit', models.PositiveSmallIntegerField(default=1, help_text='Visit number: which build of this set-up in its campaign (ABBA), from 1')),
                ('expected_s', models.FloatField(default=20, help_text='Expected time for building and teardown together, in seconds')),
                ('begun_at', models.DateTimeField(blank=True, help_text='Time at which the host was reserved', null=True)),
                ('ready_at', models.DateTimeField(blank=True, help_text='Time at which it was ready', null=True)),
                ('down_at', models.DateTimeField(blank=True, help_text='Time at which the last teardown began', null=True)),
                ('schedulers', models.JSONField(blank=True, default=list, help_text='I/O schedulers requested by its runs')),
            ],
            options={
                'ordering': ['campaign', 'position', 'pk'],
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveSmallIntegerField(default=1)),
                ('phase', models.CharField(choices=[('queued', 'Queued'), ('starting', 'Starting'), ('running', 'Running'), ('collecting', 'Collecting'), ('done', 'Done')], default='queued', max_length=20)),
                ('outcome', models.CharField(blank=True, choices=[('succeeded', 'Succeeded'), ('failed', 'Failed'), ('errored', 'Errored'), ('interrupted', 'Interrupted'), ('cancelled', 'Cancelled'), ('skipped', 'Skipped')], max_length=20)),
                ('reason', models.CharField(blank=True, max_length=40)),
                ('reason_text', models.TextField(blank=True)),
                ('argv', models.JSONField(blank=True, default=list)),
                ('tool_version', models.CharField(blank=True, max_length=200)),
                ('boot_id', models.CharField(blank=True, max_length=64)),
                ('fingerprint', models.CharField(blank=True, help_text='Runs with equal fingerprints are comparable without a warning', max_length=64)),
                ('meta', models.JSONField(blank=True, default=dict, help_text='Metadata recorded by runner.sh: clocks, caches, exit code')),
                ('windows', models.JSONField(blank=True, default=list, help_text="Time windows of the tool's phases; means are over the measured ones")),
                ('degraded', models.JSONField(blank=True, default=list, help_text='Faults found before the run, and failures during it')),
                ('exit_code', models.IntegerField(blank=True, null=True)),
                ('timeout_s', models.FloatField(default=0)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('seen_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('facts', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='hosts.factsnapshot')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='campaigns.run')),
                ('layout', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='runs.layout')),
                ('raw_removed_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('raw_removed_after', models.PositiveIntegerField(blank=True, editable=False, null=True)),
            ],
            options={
                'ordering': ['run', 'number'],
            },
        ),
        migrations.CreateModel(
            name='LiveChunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('offset', models.BigIntegerField()),
                ('data', models.BinaryField()),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='live', to='runs.attempt')),
            ],
            options={
                'ordering': ['attempt', 'offset'],
            },
        ),
        migrations.CreateModel(
            name='Measurement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('value', models.FloatField(null=True)),
                ('unit', models.CharField(max_length=8)),
                ('labels', models.JSONField(blank=True, default=dict)),
                ('note', models.TextField(blank=True)),
                ('line', models.PositiveIntegerField(default=0, help_text='Line of the artifact, from 1; 0 if there is no single line')),
                ('output', models.CharField(blank=True, default='', help_text='Name of the artifact that contains the value', max_length=200)),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='measurements', to='runs.attempt')),
            ],
            options={
                'ordering': ['attempt', 'pk'],
            },
        ),
        migrations.CreateModel(
            name='Series',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sampler', models.CharField(max_length=40)),
                ('device', models.CharField(blank=True, max_length=255)),
                ('metric', models.CharField(max_length=40)),
                ('unit', models.CharField(max_length=8)),
                ('times', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), help_text='Times in seconds since the first sample', size=None)),
                ('values', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=None)),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='series', to='runs.attempt')),
            ],
            options={
                'verbose_name_plural': 'series',
            },
        ),
        migrations.CreateModel(
            name='StepLog',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('apply', 'Apply'), ('undo', 'Undo'), ('teardown', 'Teardown'), ('check', 'Check')], max_length=10)),
                ('part', models.CharField(blank=True, help_text='Stage to which the command belongs, e.g. grow 1 or follow 1; empty for others', max_length=20)),
                ('argv', models.JSONField(help_text='Command as a list of words; secrets are shown as ***')),
                ('says', models.TextField()),
                ('destroys', models.JSONField(blank=True, default=list, help_text='Identifiers of the devices that it may destroy')),
                ('exit_code', models.IntegerField(blank=True, null=True)),
                ('stdout', models.TextField(blank=True)),
                ('stderr', models.TextField(blank=True)),
                ('started_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('layout', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='runs.layout')),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='Transition',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('old', models.CharField(max_length=20)),
                ('new', models.CharField(max_length=20)),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('reason', models.TextField(blank=True)),
                ('attempt', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='transitions', to='runs.attempt')),
                ('layout', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='transitions', to='runs.layout')),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='ArtifactPiece',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('number', models.PositiveIntegerField()),
                ('packed', models.BinaryField(help_text='Content, compressed with zlib')),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pieces', to='runs.attempt')),
            ],
            options={
                'ordering': ['attempt', 'name', 'number'],
                'constraints': [models.UniqueConstraint(fields=('attempt', 'name', 'number'), name='piece_once')],
            },
        ),
        migrations.CreateModel(
            name='Artifact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('content', models.BinaryField()),
                ('size', models.BigIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='runs.attempt')),
            ],
            options={
                'ordering': ['attempt', 'name'],
                'indexes': [models.Index(fields=['name', 'id'], name='artifact_by_name'), models.Index(fields=['size', 'id'], name='artifact_by_size'), models.Index(fields=['created_at', 'id'], name='artifact_by_time'), models.Index(fields=['sha256', 'id'], name='artifact_by_sha256')],
                'constraints': [models.UniqueConstraint(fields=('attempt', 'name'), name='artifact_name_once')],
            },
        ),
        migrations.CreateModel(
            name='Strip',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('clock', models.PositiveSmallIntegerField()),
                ('sampler', models.CharField(blank=True, max_length=40)),
                ('metric', models.CharField(blank=True, max_length=40)),
                ('unit', models.CharField(blank=True, max_length=8)),
                ('every', models.PositiveSmallIntegerField()),
                ('first', models.PositiveIntegerField(help_text='Index of its first sample')),
                ('devices', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), size=None)),
                ('most', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), help_text='Maximum for each device; NaN if unknown', size=None)),
                ('data', models.BinaryField()),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='strips', to='runs.attempt')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('attempt', 'every', 'clock', 'sampler', 'metric', 'unit', 'first'), name='strip_once')],
            },
        ),
        migrations.AddIndex(
            model_name='layout',
            index=models.Index(condition=models.Q(('phase__in', ['draft', 'done']), _negated=True), fields=['next_step_at'], name='layout_due'),
        ),
        migrations.AddConstraint(
            model_name='layout',
            constraint=models.UniqueConstraint(condition=models.Q(('phase__in', ('provisioning', 'ready', 'tearing_down', 'stuck'))), fields=('host',), name='layout_holds_host'),
        ),
        migrations.AddConstraint(
            model_name='layout',
            constraint=models.UniqueConstraint(condition=models.Q(('phase__in', ('provisioning', 'ready', 'tearing_down', 'stuck')), models.Q(('machine', ''), _negated=True)), fields=('machine',), name='layout_holds_machine'),
        ),
        migrations.AddConstraint(
            model_name='layout',
            constraint=models.CheckConstraint(condition=models.Q(('phase__in', ['tearing_down', 'stuck', 'done']), ('outcome', ''), _connector='XOR'), name='layout_outcome_when_decided'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(fields=['number', 'id'], name='attempt_by_number'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(fields=['started_at', 'id'], name='attempt_by_start'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(fields=['ended_at', 'id'], name='attempt_by_end'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(fields=['phase', 'id'], name='attempt_by_phase'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(fields=['outcome', 'id'], name='attempt_by_outcome'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(fields=['fingerprint', 'id'], name='attempt_by_fingerprint'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(fields=('run', 'number'), name='attempt_number_once'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(condition=models.Q(('phase', 'done'), _negated=True), fields=('run',), name='attempt_one_open'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(condition=models.Q(('phase__in', ['starting', 'running', 'collecting'])), fields=('layout',), name='attempt_one_on_host'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.CheckConstraint(condition=models.Q(('phase', 'done'), ('outcome', ''), _connector='XOR'), name='attempt_outcome_when_done'),
        ),
        migrations.AddConstraint(
            model_name='livechunk',
            constraint=models.UniqueConstraint(fields=('attempt', 'offset'), name='live_chunk_once'),
        ),
        migrations.AddIndex(
            model_name='measurement',
            index=models.Index(fields=['name', 'id'], include=('attempt',), name='measurement_by_name'),
        ),
        migrations.AddIndex(
            model_name='measurement',
            index=models.Index(fields=['name', 'value', 'id'], name='measurement_by_name_value'),
        ),
        migrations.AddIndex(
            model_name='measurement',
            index=models.Index(fields=['value', 'id'], name='measurement_by_value'),
        ),
        migrations.AddIndex(
            model_name='measurement',
            index=models.Index(fields=['unit', 'id'], name='measurement_by_unit'),
        ),
        migrations.AddConstraint(
            model_name='measurement',
            constraint=models.UniqueConstraint(fields=('attempt', 'name', 'labels'), name='measurement_once'),
        ),
        migrations.AddIndex(
            model_name='series',
            index=models.Index(fields=['sampler', 'id'], name='series_by_sampler'),
        ),
        migrations.AddIndex(
            model_name='series',
            index=models.Index(fields=['device', 'id'], name='series_by_device'),
        ),
        migrations.AddIndex(
            model_name='series',
            index=models.Index(fields=['metric', 'id'], name='series_by_metric'),
        ),
        migrations.AddConstraint(
            model_name='series',
            constraint=models.UniqueConstraint(fields=('attempt', 'sampler', 'device', 'metric'), name='series_once'),
        ),
        migrations.AddIndex(
            model_name='steplog',
            index=models.Index(fields=['started_at', 'id'], name='step_by_start'),
        ),
        migrations.AddIndex(
            model_name='steplog',
            index=models.Index(fields=['kind', 'id'], name='step_by_kind'),
        ),
        migrations.AddIndex(
            model_name='transition',
            index=models.Index(fields=['at', 'id'], name='transition_by_time'),
        ),
        migrations.CreateModel(
            name='Histogram',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('labels', models.JSONField(blank=True, default=dict)),
                ('lows', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), help_text='Lower bounds of the bins in seconds, ascending', size=None)),
                ('highs', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), help_text='Upper bounds of the bins in seconds, exclusive', size=None)),
                ('counts', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), help_text='Number of I/Os in each bin', size=None)),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='histograms', to='runs.attempt')),
            ],
            options={
                'ordering': ['attempt', 'pk'],
                'indexes': [models.Index(fields=['name', 'id'], name='histogram_by_name')],
                'constraints': [models.UniqueConstraint(fields=('attempt', 'name', 'labels'), name='histogram_once')],
            },
        ),
        # Numbers that jump are not compressed, so they need not be tried to be.
        migrations.RunSQL("ALTER TABLE runs_strip ALTER COLUMN data SET STORAGE EXTERNAL", migrations.RunSQL.noop),
    ]
