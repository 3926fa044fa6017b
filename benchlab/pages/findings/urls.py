# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from django.urls import path

from benchlab.pages.findings import views

urlpatterns = [
    path("findings/<int:pk>/dismiss/", views.dismiss_finding, name="finding-dismiss"),
    path("findings/<int:pk>/take-back/", views.restore_finding, name="finding-take-back"),
]
