"""URLs of the pages of charts."""

from __future__ import annotations

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
