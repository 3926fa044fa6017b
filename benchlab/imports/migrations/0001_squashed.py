# One file of what were 5, before anything was released.

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    # A state directory that has all of these has this one.
    replaces = [
        ("imports", "0001_initial"),
        ("imports", "0002_drafts"),
        ("imports", "0003_storing"),
        ("imports", "0004_uploads_in_parts"),
        ("imports", "0005_draft_pages"),
    ]

    dependencies = [
        ('campaigns', '0001_squashed_2'),
        ('team', '0001_squashed_2'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('agreement', models.JSONField(blank=True, null=True)),
                ('agreed_at', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('trouble', models.TextField(blank=True, help_text='Error message if storing failed')),
                ('stored_at', models.DateTimeField(blank=True, null=True)),
                ('outcome', models.JSONField(blank=True, null=True)),
                ('agreed_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='drafts', to='team.team')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='DraftFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('name', models.CharField(max_length=255)),
                ('content', models.BinaryField()),
                ('size', models.BigIntegerField(help_text='Size in bytes')),
                ('sha256', models.CharField(db_index=True, max_length=64)),
                ('packed', models.BooleanField(default=False)),
                ('trouble', models.TextField(blank=True)),
                ('notes', models.JSONField(blank=True, default=list)),
                ('reading', models.JSONField(blank=True, null=True)),
                ('lines', models.PositiveIntegerField(default=0)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('claimed_at', models.DateTimeField(blank=True, help_text='Time at which a worker began to read it', null=True)),
                ('draft', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='files', to='imports.draft')),
            ],
            options={
                'ordering': ['draft', 'position'],
            },
        ),
        migrations.CreateModel(
            name='DraftPage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('rows', models.JSONField()),
                ('file', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pages', to='imports.draftfile')),
            ],
            options={
                'ordering': ['file', 'number'],
            },
        ),
        migrations.CreateModel(
            name='DraftPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('content', models.BinaryField()),
                ('file', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='imports.draftfile')),
            ],
            options={
                'ordering': ['file', 'number'],
            },
        ),
        migrations.CreateModel(
            name='Source',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=255)),
                ('content', models.BinaryField()),
                ('size', models.BigIntegerField(help_text='Size in bytes')),
                ('sha256', models.CharField(db_index=True, max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('campaign', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sources', to='campaigns.campaign')),
            ],
            options={
                'ordering': ['campaign', 'name'],
            },
        ),
        migrations.AddIndex(
            model_name='draftfile',
            index=models.Index(condition=models.Q(('reading__isnull', True), ('trouble', '')), fields=['claimed_at'], name='draft_file_unread'),
        ),
        migrations.AddConstraint(
            model_name='draftfile',
            constraint=models.UniqueConstraint(fields=('draft', 'position'), name='draft_file_position_once'),
        ),
        migrations.AddConstraint(
            model_name='draftpage',
            constraint=models.UniqueConstraint(fields=('file', 'number'), name='draft_page_number_once'),
        ),
        migrations.AddConstraint(
            model_name='draftpart',
            constraint=models.UniqueConstraint(fields=('file', 'number'), name='draft_part_number_once'),
        ),
        migrations.AddConstraint(
            model_name='source',
            constraint=models.UniqueConstraint(fields=('campaign', 'name'), name='source_name_once'),
        ),
        # Not compressed: a slice of it is then read without what stands before.
        migrations.RunSQL(
            "ALTER TABLE imports_draftfile ALTER COLUMN content SET STORAGE EXTERNAL",
            "ALTER TABLE imports_draftfile ALTER COLUMN content SET STORAGE EXTENDED",
        ),
    ]
