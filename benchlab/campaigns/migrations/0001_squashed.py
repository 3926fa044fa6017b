# One file of what were 4, before anything was released.

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
    ]

    dependencies = [
        ('hosts', '0001_squashed'),
        ('team', '0001_squashed'),
        ('topologies', '0001_squashed'),
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
                ('order', models.CharField(choices=[('random_blocks', 'Randomised blocks (each repeat in a new random order)'), ('as_written', 'As written')], default='random_blocks', max_length=20)),
                ('seed', models.BigIntegerField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('cancelled_at', models.DateTimeField(blank=True, null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='campaigns', to='team.team')),
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
                ('tool', models.CharField(help_text='A driver in agents/tools/', max_length=40)),
                ('options', models.JSONField(blank=True, default=dict)),
                ('sweep', models.JSONField(blank=True, default=dict)),
                ('imported', models.BooleanField(default=False, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='workloads', to='team.team')),
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
                ('options', models.JSONField(help_text="Complete options of this cell, the sweep's values put in")),
                ('point', models.JSONField(help_text="Only what the sweep varies: {'iodepth': 4}")),
                ('stage', models.CharField(blank=True, help_text="When in its layout's life: empty as built, resync, during-1, after-1, …", max_length=20)),
                ('outstanding', models.PositiveIntegerField(help_text='Outstanding I/Os: queue depth times jobs', null=True)),
                ('repeat', models.PositiveSmallIntegerField(help_text='1-based; also the number of its block')),
                ('position', models.PositiveIntegerField(help_text='Order within the campaign')),
                ('expected_s', models.FloatField(default=0)),
                ('expected_writes', models.BigIntegerField(help_text='bytes; null: nobody can tell', null=True)),
                ('campaign', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='campaigns.campaign')),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='hosts.host')),
                ('topology', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='topologies.topology')),
                ('workload', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='campaigns.workload')),
            ],
            options={
                'ordering': ['campaign', 'position'],
            },
        ),
        migrations.AddConstraint(
            model_name='workload',
            constraint=models.UniqueConstraint(fields=('team', 'name'), name='workload_name_once'),
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
    ]
