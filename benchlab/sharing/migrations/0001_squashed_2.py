# One file of what were 3, before anything was released.

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    # A state directory that has all of these has this one.
    replaces = [
        ("sharing", "0001_initial"),
        ("sharing", "0002_report_text"),
        ("sharing", "0003_made_reports"),
    ]

    dependencies = [
        ('campaigns', '0001_squashed_2'),
        ('team', '0001_squashed_2'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('source', models.CharField(max_length=10)),
                ('who', models.CharField(max_length=200)),
                ('says', models.CharField(max_length=700)),
                ('url', models.CharField(max_length=300)),
            ],
            options={
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='Share',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('run', 'A run'), ('comparison', 'A comparison'), ('view', 'A saved view, as it was then'), ('campaign', 'A campaign: its charts and tables'), ('report', "A campaign's report")], max_length=10)),
                ('object_id', models.BigIntegerField(help_text='ID of the run, campaign or saved view', null=True)),
                ('query', models.CharField(blank=True, help_text='Query string of the comparison page, for comparisons and views', max_length=2000)),
                ('name', models.CharField(help_text='Description of the shared content, for the team', max_length=200)),
                ('hide_hosts', models.BooleanField(default=True)),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('views', models.PositiveBigIntegerField(default=0, editable=False)),
                ('viewed_at', models.DateTimeField(editable=False, null=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='shares', to='team.team')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='Tag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40)),
                ('colour', models.PositiveSmallIntegerField(default=0)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tags', to='team.team')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Tagging',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('host', 'Host'), ('topology', 'Topology'), ('workload', 'Workload'), ('campaign', 'Campaign'), ('run', 'Run')], max_length=10)),
                ('object_id', models.BigIntegerField()),
                ('tag', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='taggings', to='sharing.tag')),
            ],
            options={
                'ordering': ['tag__name'],
            },
        ),
        migrations.CreateModel(
            name='Comment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('host', 'Host'), ('topology', 'Topology'), ('workload', 'Workload'), ('campaign', 'Campaign'), ('run', 'Run')], max_length=10)),
                ('object_id', models.BigIntegerField()),
                ('text', models.TextField(max_length=10000)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('edited_at', models.DateTimeField(editable=False, null=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comments', to='team.team')),
            ],
            options={
                'ordering': ['pk'],
                'indexes': [models.Index(fields=['kind', 'object_id'], name='comment_of')],
            },
        ),
        migrations.CreateModel(
            name='Note',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('host', 'Host'), ('topology', 'Topology'), ('workload', 'Workload'), ('campaign', 'Campaign'), ('run', 'Run')], max_length=10)),
                ('object_id', models.BigIntegerField()),
                ('text', models.TextField(blank=True, max_length=10000)),
                ('changed_at', models.DateTimeField(auto_now=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notes', to='team.team')),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.UniqueConstraint(fields=('kind', 'object_id'), name='note_once')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('query', models.CharField(help_text='Query string of the comparison page', max_length=2000)),
                ('for_team', models.BooleanField(default=True, help_text='Visible to the whole team; otherwise only to its creator')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to='team.team')),
            ],
            options={
                'ordering': ['name', 'pk'],
                'constraints': [models.UniqueConstraint(fields=('team', 'by', 'name'), name='saved_view_name_once')],
            },
        ),
        migrations.CreateModel(
            name='Star',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('host', 'Host'), ('topology', 'Topology'), ('workload', 'Workload'), ('campaign', 'Campaign'), ('run', 'Run')], max_length=10)),
                ('object_id', models.BigIntegerField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='stars', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-pk'],
                'constraints': [models.UniqueConstraint(fields=('user', 'kind', 'object_id'), name='star_once')],
            },
        ),
        migrations.CreateModel(
            name='ReportText',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('place', models.CharField(choices=[('opening', 'Introduction'), ('setup', 'On hosts and set-ups'), ('results', 'On the results'), ('closing', 'Conclusions')], max_length=10)),
                ('text', models.TextField(blank=True, max_length=10000)),
                ('changed_at', models.DateTimeField(auto_now=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('campaign', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='report_texts', to='campaigns.campaign')),
            ],
            options={
                'ordering': ['campaign', 'place'],
                'constraints': [models.UniqueConstraint(fields=('campaign', 'place'), name='report_text_once')],
            },
        ),
        migrations.CreateModel(
            name='MadeReport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('shown', models.JSONField(default=list, help_text='IDs of the campaigns in the report')),
                ('format', models.CharField(choices=[('pdf', 'PDF'), ('markdown', 'Markdown with pictures')], max_length=10)),
                ('query', models.CharField(blank=True, help_text="Query string of the report's page", max_length=2000)),
                ('asked_at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('page', models.BinaryField(help_text='Report as a single HTML file; empty once the file is made')),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('content', models.BinaryField(null=True)),
                ('size', models.BigIntegerField(default=0, help_text='Size in bytes')),
                ('note', models.TextField(blank=True, help_text='Omitted parts, with the reason')),
                ('trouble', models.TextField(blank=True, help_text='Error message if it could not be made')),
                ('made_at', models.DateTimeField(null=True)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('campaign', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='made_reports', to='campaigns.campaign')),
                ('view', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='made_reports', to='sharing.savedview')),
            ],
            options={
                'ordering': ['-pk'],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('campaign', None), ('view__isnull', False)), models.Q(('campaign__isnull', False), ('view', None)), _connector='OR'), name='made_report_of_one')],
            },
        ),
        migrations.CreateModel(
            name='ViewText',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('place', models.CharField(choices=[('opening', 'Introduction'), ('setup', 'On hosts and set-ups'), ('results', 'On the results'), ('closing', 'Conclusions')], max_length=10)),
                ('text', models.TextField(blank=True, max_length=10000)),
                ('changed_at', models.DateTimeField(auto_now=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('view', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='report_texts', to='sharing.savedview')),
            ],
            options={
                'ordering': ['view', 'place'],
                'constraints': [models.UniqueConstraint(fields=('view', 'place'), name='view_text_once')],
            },
        ),
        migrations.AddConstraint(
            model_name='tag',
            constraint=models.UniqueConstraint(fields=('team', 'name'), name='tag_name_once'),
        ),
        migrations.AddConstraint(
            model_name='tag',
            constraint=models.CheckConstraint(condition=models.Q(('colour__lt', 7)), name='tag_colour_known'),
        ),
        migrations.AddConstraint(
            model_name='tagging',
            constraint=models.UniqueConstraint(fields=('kind', 'object_id', 'tag'), name='tagging_once'),
        ),
    ]
