# One file of what were 4, before anything was released.

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    # A state directory that has all of these has this one.
    replaces = [
        ("topologies", "0001_initial"),
        ("topologies", "0002_stages"),
        ("topologies", "0003_on_degraded"),
        ("topologies", "0001_squashed"),
        ("topologies", "0002_kept"),
    ]

    dependencies = [
        ('team', '0001_squashed_2'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Topology',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('description', models.TextField(blank=True)),
                ('stack', models.JSONField()),
                ('stages', models.JSONField(blank=True, default=list)),
                ('measure_resync', models.BooleanField(default=False, help_text='Measure during resync as well. If off, runs wait until the layers are in sync.', verbose_name='measure during the first resync too')),
                ('on_degraded', models.CharField(choices=[('stop', 'Stop: measure no more on it'), ('measure', 'Measure on, and mark every run')], default='stop', help_text='Checked before and after each run: failed members, lost caches, disk errors.', max_length=10, verbose_name='when something in it fails')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='topologies', to='team.team')),
                ('archived_at', models.DateTimeField(editable=False, null=True)),
                ('archived_by', models.CharField(blank=True, editable=False, max_length=200)),
                ('deleted_at', models.DateTimeField(editable=False, null=True)),
                ('deleted_by', models.CharField(blank=True, editable=False, max_length=200)),
                ('going_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'verbose_name_plural': 'topologies',
                'ordering': ['name'],
            },
        ),
        migrations.AddConstraint(
            model_name='topology',
            constraint=models.UniqueConstraint(condition=models.Q(('deleted_at', None)), fields=('team', 'name'), name='topology_name_once', violation_error_message='A topology of this name already exists.'),
        ),
    ]
