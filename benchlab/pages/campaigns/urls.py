# SPDX-License-Identifier: Apache-2.0
"""URLs of home, campaigns and workloads."""

from __future__ import annotations

from django.urls import path

from benchlab.pages.campaigns import (
    compare_layouts,
    home,
    live,
    views,
    views_actions,
    views_workloads,
)

urlpatterns = [
    path("", home.home, name="home"),
    path("campaigns/", views.campaign_list, name="campaign-list"),
    path("campaigns/new/", views.campaign_new, name="campaign-new"),
    path("compare-layouts/", compare_layouts.compare_layouts, name="compare-layouts"),
    path("campaigns/next-step/", views.campaign_next_step, name="campaign-next-step"),
    path("campaigns/preset/", views.campaign_preset, name="campaign-preset"),
    path("campaigns/<int:pk>/", views.campaign_detail, name="campaign-detail"),
    path("campaigns/<int:pk>/events/", live.campaign_events, name="campaign-events"),
    path("campaigns/<int:pk>/again/", views.campaign_again, name="campaign-again"),
    path("campaigns/<int:pk>/plan/", views_actions.campaign_plan, name="campaign-plan"),
    path("campaigns/<int:pk>/start/", views_actions.campaign_start, name="campaign-start"),
    path("campaigns/<int:pk>/pause/", views_actions.campaign_pause, name="campaign-pause"),
    path("campaigns/<int:pk>/resume/", views_actions.campaign_resume, name="campaign-resume"),
    path("campaigns/<int:pk>/cancel/", views_actions.campaign_cancel, name="campaign-cancel"),
    path("campaigns/<int:pk>/retry/", views_actions.campaign_retry, name="campaign-retry"),
    path(
        "campaigns/<int:pk>/repeats/",
        views_actions.campaign_add_repeats,
        name="campaign-add-repeats",
    ),
    path("runs/<int:pk>/retry/", views_actions.run_retry, name="run-retry"),
    path("layouts/<int:pk>/done/", views_actions.layout_person_done, name="layout-person-done"),
    path("layouts/<int:pk>/teardown/", views_actions.layout_teardown, name="layout-teardown"),
    path("layouts/<int:pk>/release/", views_actions.layout_release, name="layout-release"),
    path("workloads/", views_workloads.workload_list, name="workload-list"),
    path("workloads/new/", views_workloads.workload_new, name="workload-new"),
    path("workloads/try/", views_workloads.workload_try, name="workload-try"),
    path("workloads/<int:pk>/", views_workloads.workload_detail, name="workload-detail"),
]
