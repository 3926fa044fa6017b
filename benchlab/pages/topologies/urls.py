# SPDX-License-Identifier: Apache-2.0
"""URLs of the pages of topologies."""

from __future__ import annotations

from django.urls import path

from benchlab.pages.topologies import views, views_plan

urlpatterns = [
    path("", views.topology_list, name="topology-list"),
    path("new/", views.topology_new, name="topology-new"),
    path("<int:pk>/", views.topology_detail, name="topology-detail"),
    path("<int:pk>/edit/", views.topology_edit, name="topology-edit"),
    path("<int:pk>/plan/", views_plan.topology_plan, name="topology-plan"),
]
