# SPDX-License-Identifier: Apache-2.0
"""The one address of the metrics; the web server answers it before any middleware (benchlab/asgi.py)."""

from __future__ import annotations

from django.urls import path

from benchlab.metrics.view import metrics

urlpatterns = [path("metrics", metrics, name="metrics")]
