# The log is read in the order of its columns, each with the id behind it (benchlab/pages/audit).

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0001_squashed'),
    ]

    operations = [
        migrations.AlterField(
            model_name='entry',
            name='action',
            field=models.CharField(help_text='Action, e.g. campaign-start, host.create or destroy', max_length=100),
        ),
        migrations.AlterField(
            model_name='entry',
            name='at',
            field=models.DateTimeField(),
        ),
        migrations.AddIndex(
            model_name='entry',
            index=models.Index(fields=['at', 'id'], name='audit_by_at'),
        ),
        migrations.AddIndex(
            model_name='entry',
            index=models.Index(fields=['actor', 'id'], name='audit_by_actor'),
        ),
        migrations.AddIndex(
            model_name='entry',
            index=models.Index(fields=['action', 'id'], name='audit_by_action'),
        ),
        migrations.AddIndex(
            model_name='entry',
            index=models.Index(fields=['outcome', 'id'], name='audit_by_outcome'),
        ),
    ]
