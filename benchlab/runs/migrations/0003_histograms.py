import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0001_squashed_2'),
    ]

    operations = [
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
    ]
