# SPDX-License-Identifier: Apache-2.0
"""Every URL. Pages per app; the API under /api/."""

from __future__ import annotations

from django.urls import include, path

from benchlab.readiness import healthy, ready

handler400 = "benchlab.web.errors.bad_request"
handler500 = "benchlab.web.errors.server_error"


urlpatterns = [
    path("healthz", healthy, name="healthz"),
    path("readyz", ready, name="readyz"),
    path("", include("benchlab.metrics.urls")),
    # /login/, /account/, /team/, /join/, /site/
    path("", include("benchlab.pages.team.urls")),
    # / and /campaigns/, /workloads/
    path("", include("benchlab.pages.campaigns.urls")),
    path("hosts/", include("benchlab.pages.hosts.urls")),
    path("topologies/", include("benchlab.pages.topologies.views")),
    path("runs/", include("benchlab.pages.runs.views")),
    path("search/", include("benchlab.pages.search")),
    # /runs/, /compare/
    path("", include("benchlab.charts.urls")),
    # /findings/
    path("", include("benchlab.pages.findings")),
    # /campaigns/1/answers/
    path("", include("benchlab.pages.answers")),
    # /import/, /library/
    path("", include("benchlab.imports.urls")),
    # /dynamo/ and files of IOmeter's
    path("", include("benchlab.dynamo.urls")),
    # before the documents: it is none
    path("docs/look/", include("benchlab.pages.look")),
    # /docs/
    path("", include("benchlab.pages.documents")),
    path("audit/", include("benchlab.pages.audit")),
    # /talk/, /views/, /shares/, /activity/, /s/
    path("", include("benchlab.sharing.urls")),
    # …/rename/, /archive/, /delete/ of three nouns, /deleted/
    path("", include("benchlab.lifecycle.urls")),
    path("api/", include("benchlab.rest.urls")),
]
