"""What a disk is rated for, told by a person."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('hosts', '0001_squashed'),
    ]

    operations = [
        migrations.AddField(
            model_name='device',
            name='rated_bandwidth',
            field=models.PositiveBigIntegerField(blank=True, help_text='B/s; null: not told', null=True, validators=[django.core.validators.MinValueValidator(1)]),
        ),
        migrations.AddField(
            model_name='device',
            name='rated_iops',
            field=models.PositiveBigIntegerField(blank=True, help_text='op/s; null: not told', null=True, validators=[django.core.validators.MinValueValidator(1)]),
        ),
        migrations.AddConstraint(
            model_name='device',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('rated_iops', None), ('rated_iops__gt', 0), _connector='OR'), models.Q(('rated_bandwidth', None), ('rated_bandwidth__gt', 0), _connector='OR')), name='device_rated_positive'),
        ),
    ]
