"""Pages of the API. A module of its own: DRF imports it while it loads the views that benchlab.api builds on."""

from __future__ import annotations

from rest_framework.pagination import PageNumberPagination


class Pages(PageNumberPagination):
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 1000
