# One file of what were 6, before anything was released.

import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    # A state directory that has all of these has this one.
    replaces = [
        ("team", "0001_initial"),
        ("team", "0002_library"),
        ("team", "0003_roles"),
        ("team", "0004_tokens"),
        ("team", "0005_invitations"),
        ("team", "0001_squashed"),
        ("team", "0002_keep_raw_days"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('viewer', 'Viewer: sees everything of the team'), ('operator', 'Operator: runs campaigns on its hosts'), ('owner', 'Owner: marks disks spare, keeps credentials and members')], default='owner', max_length=10)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='Team',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('library', models.BooleanField(default=False, editable=False)),
                ('require_mfa', models.BooleanField(default=False, help_text='Members cannot access the team until they have set up a second factor.', verbose_name='second factor demanded')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('members', models.ManyToManyField(related_name='teams', through='team.Membership', to=settings.AUTH_USER_MODEL)),
                ('keep_raw_days', models.PositiveIntegerField(blank=True, help_text='Raw output and samples of a campaign are removed so many days after it has ended; its figures stay. Empty: they are kept for ever', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(36500)], verbose_name='days to keep raw output')),
            ],
        ),
        migrations.AddField(
            model_name='membership',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='team.team'),
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('viewer', 'Viewer: sees everything of the team'), ('operator', 'Operator: runs campaigns on its hosts'), ('owner', 'Owner: marks disks spare, keeps credentials and members')], default='viewer', max_length=10)),
                ('email', models.EmailField(blank=True, help_text='E-mail address of the person invited. The link works for anyone who has it.', max_length=254, verbose_name='e-mail')),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('used_at', models.DateTimeField(editable=False, null=True)),
                ('invited_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('used_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to='team.team')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('role', models.CharField(choices=[('viewer', 'Viewer: sees everything of the team'), ('operator', 'Operator: runs campaigns on its hosts'), ('owner', 'Owner: marks disks spare, keeps credentials and members')], default='viewer', max_length=10, verbose_name='highest role')),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('shown', models.CharField(editable=False, help_text='First characters of the token', max_length=12)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField()),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(blank=True, help_text='Limit the token to this team. If empty, it works in all teams of its user.', null=True, on_delete=django.db.models.deletion.CASCADE, to='team.team')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('team', 'user'), name='membership_once'),
        ),
        migrations.AddConstraint(
            model_name='team',
            constraint=models.UniqueConstraint(condition=models.Q(('library', True)), fields=('library',), name='team_one_library'),
        ),
    ]
