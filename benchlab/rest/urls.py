# SPDX-License-Identifier: Apache-2.0
"""URLs of the REST API: a router of nouns, the OpenAPI schema and its page, and the token page."""

from __future__ import annotations

from django.urls import include, path, re_path
from rest_framework.routers import DefaultRouter

from benchlab.pages.team import accounts as team_views
from benchlab.rest import (
    campaigns,
    diagnose,
    drivers,
    dynamo,
    findings,
    hosts,
    imports,
    measurements,
    operations,
    results,
    runs,
    sharing,
    teams,
    topologies,
    verdicts,
)
from benchlab.team.api_docs import SharedSchema
from benchlab.web.api import ApiRoot, UnknownAddressView

router = DefaultRouter()
router.APIRootView = ApiRoot
# there is JSON and nothing else
router.include_format_suffixes = False
router.register("teams", teams.Teams)
router.register("memberships", teams.Memberships)
router.register("invitations", teams.Invitations)
router.register("credentials", hosts.Credentials)
router.register("hosts", hosts.Hosts)
router.register("devices", hosts.Devices)
router.register("host-tasks", operations.HostTasks)
router.register("package-installs", hosts.PackageInstalls)
router.register("fact-snapshots", hosts.FactSnapshots)
router.register("dynamo-programs", dynamo.Programs)
router.register("dynamo-checks", dynamo.Checks, "dynamo-check")
router.register("dynamo-listener", dynamo.Listener, "dynamo-listener")
router.register("reported-targets", dynamo.ReportedTargets)
router.register("layers", drivers.Layers, "layer")
router.register("tools", drivers.Tools, "tool")
router.register("samplers", drivers.Samplers, "sampler")
router.register("presets", drivers.Presets, "preset")
router.register("topologies", topologies.Topologies)
router.register("workloads", campaigns.Workloads)
router.register("icf-files", dynamo.IcfFiles, "icf-file")
router.register("campaigns", campaigns.Campaigns)
router.register("runs", runs.Runs)
router.register("imports", imports.Imports)
router.register("sources", imports.Sources)
router.register("layouts", runs.Layouts)
router.register("attempts", runs.Attempts)
router.register("steps", runs.Steps)
router.register("transitions", runs.Transitions)
router.register("artifacts", measurements.Artifacts)
router.register("measurements", measurements.Measurements)
router.register("series", measurements.AllSeries)
router.register("histograms", measurements.Histograms)
router.register("findings", findings.Findings)
router.register("comments", sharing.Comments)
router.register("tags", sharing.Tags)
router.register("taggings", sharing.Taggings)
router.register("notes", sharing.Notes)
router.register("stars", sharing.Stars)
router.register("views", sharing.SavedViews)
router.register("shares", sharing.Shares)
router.register("activity", sharing.Activity)
router.register("audit", teams.AuditEntries)
router.register("history", findings.Histories, "history")
router.register("results", results.Results, "results")
router.register("series-table", results.SeriesTable, "series-table")
router.register("verdicts", verdicts.Verdicts, "verdict")

urlpatterns = [
    # pages have the plain names: campaign-list
    path("", include((router.urls, "api"))),
    path("schema/", SharedSchema.as_view(), name="schema"),
    path("docs/", team_views.api_docs, name="api-docs"),
    path("diagnose/", diagnose.Diagnose.as_view(), name="api-diagnose"),
    path("token/", team_views.api_tokens, name="api-token"),
    path("token/end/", team_views.end_tokens, name="api-tokens-end"),
    path("token/<int:pk>/revoke/", team_views.revoke_token, name="api-token-revoke"),
    # With its slash: one that was left off is still redirected
    re_path(r"^.*/$", UnknownAddressView.as_view(), name="api-nowhere"),
]
