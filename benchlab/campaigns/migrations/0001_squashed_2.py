# One file of what were 8, before anything was released.

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    # A state directory that has all of these has this one.
    replaces = [
        ("campaigns", "0001_initial"),
        ("campaigns", "0002_stages"),
        ("campaigns", "0003_imported"),
        ("campaigns", "0004_list_indexes"),
        ("campaigns", "0001_squashed"),
        ("campaigns", "0002_visits"),
        ("campaigns", "0003_runs_in_order"),
        ("campaigns", "0004_kept"),
        ("campaigns", "0005_schedulers"),
    ]

    dependencies = [
        ('hosts', '0001_squashed_2'),
        ('team', '0001_squashed_2'),
        ('topologies', '0001_squashed_2'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Campaign',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('source', models.CharField(blank=True, choices=[('', 'Measured here'), ('imported', 'Imported'), ('library', 'Reference library')], editable=False, max_length=10)),
                ('origin', models.JSONField(blank=True, default=dict, editable=False)),
                ('question', models.TextField(blank=True)),
                ('repeats', models.PositiveSmallIntegerField(default=3)),
                ('order', models.CharField(choices=[('random_blocks', 'Randomised blocks (each repeat in a new random order)'), ('as_written', 'As written'), ('abba', 'ABBA (each layout is built in several visits, which take turns)')], default='random_blocks', max_length=20)),
                ('seed', models.BigIntegerField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('cancelled_at', models.DateTimeField(blank=True, null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='campaigns', to='team.team')),
                ('visits', models.PositiveSmallIntegerField(default=1, help_text='Number of times that each layout is built; more than one in ABBA order')),
                ('archived_at', models.DateTimeField(editable=False, null=True)),
                ('archived_by', models.CharField(blank=True, editable=False, max_length=200)),
                ('deleted_at', models.DateTimeField(editable=False, null=True)),
                ('deleted_by', models.CharField(blank=True, editable=False, max_length=200)),
                ('going_at', models.DateTimeField(editable=False, null=True)),
                ('schedulers', models.JSONField(blank=True, default=list, help_text="I/O schedulers of the disks: each point is measured with each of them; empty to keep the host's")),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='Workload',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('tool', models.CharField(help_text='Benchmark tool: the name of a driver in agents/tools', max_length=40)),
                ('options', models.JSONField(blank=True, default=dict)),
                ('sweep', models.JSONField(blank=True, default=dict)),
                ('imported', models.BooleanField(default=False, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='workloads', to='team.team')),
                ('archived_at', models.DateTimeField(editable=False, null=True)),
                ('archived_by', models.CharField(blank=True, editable=False, max_length=200)),
                ('deleted_at', models.DateTimeField(editable=False, null=True)),
                ('deleted_by', models.CharField(blank=True, editable=False, max_length=200)),
                ('going_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tool', models.CharField(max_length=40)),
                ('options', models.JSONField(help_text='Complete options of this run, including the values of the sweep')),
                ('point', models.JSONField(help_text="Values of the swept options only, e.g. {'iodepth': 4}")),
                ('stage', models.CharField(blank=True, help_text='Stage of the layout: empty (as built), resync, during-1, after-1, …', max_length=20)),
                ('outstanding', models.PositiveIntegerField(help_text='Outstanding I/Os: queue depth multiplied by the number of jobs', null=True)),
                ('repeat', models.PositiveSmallIntegerField(help_text='Repeat number, from 1; also the number of its block')),
                ('position', models.PositiveIntegerField(help_text='Position within the campaign')),
                ('expected_s', models.FloatField(default=0)),
                ('expected_writes', models.BigIntegerField(help_text='Expected bytes written; null if unknown', null=True)),
                ('campaign', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='campaigns.campaign')),
                ('host', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='hosts.host')),
                ('topology', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='topologies.topology')),
                ('workload', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='campaigns.workload')),
                ('visit', models.PositiveSmallIntegerField(default=1, help_text='Visit number: which build of its layout it belongs to (ABBA), from 1')),
                ('scheduler', models.CharField(blank=True, default='', help_text="I/O scheduler set on the layout's disks before the run; empty to leave it unchanged", max_length=20)),
            ],
            options={
                'ordering': ['campaign', 'position'],
            },
        ),
        migrations.AddIndex(
            model_name='campaign',
            index=models.Index(condition=models.Q(('deleted_at__isnull', False)), fields=['deleted_at'], name='campaign_deleted'),
        ),
        migrations.AddConstraint(
            model_name='workload',
            constraint=models.UniqueConstraint(condition=models.Q(('deleted_at', None)), fields=('team', 'name'), name='workload_name_once', violation_error_message='A workload of this name already exists.'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['position', 'id'], name='run_by_position'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['outstanding', 'id'], name='run_by_outstanding'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['repeat', 'id'], name='run_by_repeat'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['stage', 'id'], name='run_by_stage'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['tool', 'id'], name='run_by_tool'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(fields=('campaign', 'position'), name='run_position_once'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(fields=('campaign', 'host', 'topology', 'stage', 'workload', 'point', 'repeat'), name='run_cell_once'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['host', 'id'], name='run_by_host'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['topology', 'id'], name='run_by_topology'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['workload', 'id'], name='run_by_workload'),
        ),
    ]
