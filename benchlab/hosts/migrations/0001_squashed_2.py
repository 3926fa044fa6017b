# One file of what were 8, before anything was released.

import benchlab.hosts.models
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    # A state directory that has all of these has this one.
    replaces = [
        ("hosts", "0001_initial"),
        ("hosts", "0002_trouble_choices"),
        ("hosts", "0003_package_install"),
        ("hosts", "0004_access"),
        ("hosts", "0005_spare_boot"),
        ("hosts", "0006_host_tasks"),
        ("hosts", "0007_snapshot_seen_again"),
        ("hosts", "0001_squashed"),
        ("hosts", "0002_device_rating"),
    ]

    dependencies = [
        ('team', '0001_squashed_2'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Credential',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('public_key', models.TextField()),
                ('private_key', models.BinaryField()),
                ('uploaded', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='credentials', to='team.team')),
            ],
        ),
        migrations.CreateModel(
            name='Host',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('access', models.CharField(choices=[('ssh', 'SSH'), ('dynamo', 'Managed by dynamo only'), ('described', 'Not reached: results from it were imported')], default='ssh', editable=False, max_length=10)),
                ('address', models.CharField(blank=True, max_length=255)),
                ('port', models.PositiveIntegerField(default=22)),
                ('user', models.CharField(default='root', max_length=64)),
                ('host_key', models.TextField(blank=True, help_text='Pinned public host key; empty until it has been confirmed')),
                ('offered_key', models.TextField(blank=True)),
                ('is_local', models.BooleanField(default=False, help_text='This machine, reached through the SSH server that `up` starts')),
                ('notes', models.TextField(blank=True)),
                ('seen_at', models.DateTimeField(blank=True, null=True)),
                ('trouble', models.CharField(blank=True, choices=benchlab.hosts.models.reasons, max_length=40)),
                ('trouble_text', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('credential', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='hosts', to='hosts.credential')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='hosts', to='team.team')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='FactSnapshot',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('taken_at', models.DateTimeField(auto_now_add=True)),
                ('seen_at', models.DateTimeField(blank=True, help_text='Last time that a reading gave the same facts', null=True)),
                ('boot_id', models.CharField(blank=True, max_length=64)),
                ('facts', models.JSONField()),
                ('digest', models.CharField(blank=True, default='', editable=False, help_text='SHA-256 digest of the facts', max_length=64)),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='snapshots', to='hosts.host')),
            ],
            options={
                'ordering': ['-pk'],
                'get_latest_by': 'pk',
            },
        ),
        migrations.CreateModel(
            name='Device',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('identity', models.CharField(help_text='Stable identifier: wwn:…, serial:… or weak:name:size', max_length=255)),
                ('name', models.CharField(help_text='Kernel name when last seen; it may change at each boot', max_length=64)),
                ('model', models.CharField(blank=True, max_length=255)),
                ('serial', models.CharField(blank=True, max_length=255)),
                ('wwn', models.CharField(blank=True, max_length=255)),
                ('size', models.BigIntegerField(help_text='Size in bytes')),
                ('rotational', models.BooleanField(null=True)),
                ('present', models.BooleanField(default=True)),
                ('in_use', models.CharField(blank=True, help_text='Reason why it cannot be marked spare now; empty if it can', max_length=255)),
                ('role', models.CharField(blank=True, help_text='Role by which topologies select disks, e.g. hdd, ssd or nvme', max_length=32)),
                ('spare', models.BooleanField(default=False)),
                ('spare_size', models.BigIntegerField(blank=True, null=True)),
                ('spare_model', models.CharField(blank=True, max_length=255)),
                ('spare_boot', models.CharField(blank=True, help_text='Boot ID of the host when the disk was marked spare', max_length=64)),
                ('spare_at', models.DateTimeField(blank=True, null=True)),
                ('spare_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='devices', to='hosts.host')),
                ('rated_bandwidth', models.PositiveBigIntegerField(blank=True, help_text='Rated bandwidth (B/s); null if unknown', null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('rated_iops', models.PositiveBigIntegerField(blank=True, help_text='Rated IOPS (op/s); null if unknown', null=True, validators=[django.core.validators.MinValueValidator(1)])),
            ],
            options={
                'ordering': ['host', 'name'],
            },
        ),
        migrations.CreateModel(
            name='HostTask',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(help_text='Kind of task: a key of host_tasks.KINDS', max_length=40)),
                ('options', models.JSONField(default=dict)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('due_at', models.DateTimeField(help_text='Time at which a worker is notified again')),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('error', models.TextField(blank=True, help_text='Error message; empty if it did not fail')),
                ('result', models.JSONField(blank=True, null=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='hosts.host')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='PackageInstall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('argv', models.JSONField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('exit_code', models.IntegerField(blank=True, null=True)),
                ('output', models.TextField(blank=True, help_text="End of the command's output")),
                ('trouble', models.TextField(blank=True, help_text='Error message; empty if it did not fail')),
                ('begun_at', models.DateTimeField(blank=True, null=True)),
                ('due_at', models.DateTimeField(blank=True, null=True)),
                ('silence', models.TextField(blank=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='installs', to='hosts.host')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.AddConstraint(
            model_name='credential',
            constraint=models.UniqueConstraint(fields=('team', 'name'), name='credential_name_once'),
        ),
        migrations.AddConstraint(
            model_name='host',
            constraint=models.UniqueConstraint(fields=('team', 'name'), name='host_name_once'),
        ),
        migrations.AddConstraint(
            model_name='host',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('access', 'ssh'), ('credential__isnull', False), models.Q(('address', ''), _negated=True)), models.Q(models.Q(('access', 'ssh'), _negated=True), ('credential__isnull', True)), _connector='OR'), name='host_reached_by_ssh_has_key'),
        ),
        migrations.AddConstraint(
            model_name='device',
            constraint=models.UniqueConstraint(fields=('host', 'identity'), name='device_identity_once'),
        ),
        migrations.AddConstraint(
            model_name='device',
            constraint=models.CheckConstraint(condition=models.Q(('spare', False), models.Q(('spare_size__isnull', False), models.Q(('role', ''), _negated=True)), _connector='OR'), name='device_spare_confirmed'),
        ),
        migrations.AddConstraint(
            model_name='device',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('rated_iops', None), ('rated_iops__gt', 0), _connector='OR'), models.Q(('rated_bandwidth', None), ('rated_bandwidth__gt', 0), _connector='OR')), name='device_rated_positive'),
        ),
        migrations.AddIndex(
            model_name='hosttask',
            index=models.Index(condition=models.Q(('ended_at', None)), fields=['due_at'], name='host_task_open'),
        ),
        migrations.AddConstraint(
            model_name='packageinstall',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('host',), name='install_one_open'),
        ),
    ]
