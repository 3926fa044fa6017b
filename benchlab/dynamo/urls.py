# SPDX-License-Identifier: Apache-2.0
"""URLs of dynamo's pages."""

from __future__ import annotations

from django.urls import path

from benchlab.dynamo import views

urlpatterns = [
    path("dynamo/", views.dynamo, name="dynamo"),
    path("dynamo/programs/<int:pk>/delete/", views.program_delete, name="dynamo-program-delete"),
    path("dynamo/check/", views.dynamo_check, name="dynamo-check"),
    path("dynamo/icf/", views.icf_new, name="icf-new"),
    path("workloads/<int:pk>/iometer.icf", views.icf_download, name="workload-icf"),
    path("hosts/<int:pk>/accept-dynamo/", views.accept_dynamo, name="host-accept-dynamo"),
    path("dynamo/targets/<int:pk>/spare/", views.reported_spare, name="reported-spare"),
    path("dynamo/targets/<int:pk>/topology/", views.reported_topology, name="reported-topology"),
    path("attempts/<int:pk>/iometer.csv", views.attempt_csv, name="attempt-iometer-csv"),
    path("campaigns/<int:pk>/iometer.csv", views.campaign_csv, name="campaign-iometer-csv"),
    path("attempts/<int:pk>/latency.json", views.attempt_latency, name="attempt-latency-figure"),
    path("attempts/<int:pk>/now/", views.attempt_now, name="attempt-now"),
]
