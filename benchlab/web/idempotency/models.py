# SPDX-License-Identifier: Apache-2.0
"""Answers to requests that carried an Idempotency-Key, kept for a day."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class KeptAnswer(models.Model):
    """Begun with the request; `status` is set once it was answered. Without one, nobody knows whether it was done."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="kept_answers"
    )
    key = models.CharField(max_length=255)
    digest = models.CharField(
        max_length=64, help_text="SHA-256 of the request's method, path and body"
    )
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(blank=True, help_text="Response body (JSON)")
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="kept_answer_once")]

    def __str__(self) -> str:
        return f"{self.key}: {self.status or 'not answered'}"
