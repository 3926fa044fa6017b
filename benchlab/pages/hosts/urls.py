# SPDX-License-Identifier: Apache-2.0
"""URLs of the pages of hosts, under /hosts/."""

from __future__ import annotations

from django.urls import URLPattern, path

from benchlab.pages.hosts import views, views_disks

urlpatterns: list[URLPattern] = [
    path("", views.host_list, name="host-list"),
    path("add/", views.host_add, name="host-add"),
    path("keys/", views.credential_list, name="credential-list"),
    path("keys/<int:pk>/delete/", views.credential_delete, name="credential-delete"),
    path("<int:pk>/", views.host_detail, name="host-detail"),
    path("<int:pk>/change/", views.host_change, name="host-change"),
    path("<int:pk>/delete/", views.host_delete, name="host-delete"),
    path("<int:pk>/tasks/<int:task_pk>/", views.host_task, name="host-task"),
    path("<int:pk>/read/", views.host_read, name="host-read"),
    path("<int:pk>/orphans/<int:layout_pk>/", views_disks.orphan_teardown, name="host-orphan"),
    path("<int:pk>/install/", views_disks.package_install, name="host-install-confirm"),
    path(
        "<int:pk>/install/<int:install_pk>/",
        views_disks.package_install_progress,
        name="host-install",
    ),
    path("<int:pk>/facts/", views.host_history, name="host-history"),
    path("<int:pk>/facts/<int:snapshot_pk>/", views.host_snapshot, name="host-snapshot"),
    path("<int:pk>/key/", views.host_key, name="host-key"),
    path("<int:pk>/key/ask/", views.host_key_ask, name="host-key-ask"),
    path("<int:pk>/key/keep/", views.host_key_keep, name="host-key-keep"),
    path("<int:pk>/devices/<int:device_pk>/", views_disks.device_detail, name="device-detail"),
    path("<int:pk>/devices/<int:device_pk>/keep/", views_disks.device_keep, name="device-keep"),
    path("<int:pk>/devices/<int:device_pk>/rate/", views_disks.device_rate, name="device-rate"),
]
