# SPDX-License-Identifier: Apache-2.0
"""URLs of the audit log."""

from __future__ import annotations

from django.urls import path

from benchlab.pages.audit import views

urlpatterns = [
    path("", views.audit_log, name="audit-log"),
    path("audit.csv", views.audit_csv, name="audit-csv"),
]
