# SPDX-License-Identifier: Apache-2.0
"""URLs of the pages of hosts, under /hosts/."""

from __future__ import annotations

from django.urls import URLPattern, path

from benchlab.pages.hosts import views, views_devices, views_keys, views_orphans, views_packages

urlpatterns: list[URLPattern] = [
    path("", views.hosts, name="host-list"),
    path("add/", views.add, name="host-add"),
    path("keys/", views_keys.credentials, name="credential-list"),
    path("keys/<int:pk>/delete/", views_keys.delete_credential, name="credential-delete"),
    path("<int:pk>/", views.host, name="host-detail"),
    path("<int:pk>/change/", views.change, name="host-change"),
    path("<int:pk>/delete/", views.delete, name="host-delete"),
    path("<int:pk>/tasks/<int:task_pk>/", views.task, name="host-task"),
    path("<int:pk>/read/", views.read, name="host-read"),
    path("<int:pk>/orphans/<int:layout_pk>/", views_orphans.teardown, name="host-orphan"),
    path("<int:pk>/install/", views_packages.install, name="host-install-confirm"),
    path("<int:pk>/install/<int:install_pk>/", views_packages.installing, name="host-install"),
    path("<int:pk>/facts/", views.history, name="host-history"),
    path("<int:pk>/facts/<int:snapshot_pk>/", views.snapshot, name="host-snapshot"),
    path("<int:pk>/key/", views_keys.host_key, name="host-key"),
    path("<int:pk>/key/ask/", views_keys.ask, name="host-key-ask"),
    path("<int:pk>/key/keep/", views_keys.keep, name="host-key-keep"),
    path("<int:pk>/devices/<int:device_pk>/", views_devices.device, name="device-detail"),
    path("<int:pk>/devices/<int:device_pk>/keep/", views_devices.keep, name="device-keep"),
    path("<int:pk>/devices/<int:device_pk>/rate/", views_devices.rate, name="device-rate"),
]
