"""URLs of the pages of campaigns."""

from __future__ import annotations

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
