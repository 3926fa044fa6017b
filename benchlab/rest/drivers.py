# SPDX-License-Identifier: Apache-2.0
"""Self-description of the drivers over REST: layers, tools, samplers and presets, with every option."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents import options
from agents.contracts import Need, Use
from agents.drivers import protocols, registry
from benchlab.campaigns import workload_presets
from benchlab.hosts.models import Host
from benchlab.topologies import host_shapes
from benchlab.web.api import SingleAnswerViewSet

JsonObject = dict[str, Any]


class NeedSerializer(serializers.Serializer[JsonObject]):
    program = serializers.CharField()
    minimum = serializers.CharField(help_text="Minimum version; empty: any")
    packages = serializers.DictField(
        child=serializers.CharField(), help_text="OS family -> package"
    )


class DriverSerializer(serializers.Serializer[JsonObject]):
    kind = serializers.CharField()
    label = serializers.CharField(help_text="As pages call it")  # type: ignore[assignment]  # an attribute's name
    says = serializers.CharField(help_text="What it is, in a sentence or two")


class ToolSerializer(DriverSerializer):
    needs = NeedSerializer(many=True, help_text="Every program that it may use on the host")
    options = serializers.JSONField(
        help_text="JSON schema of its options: type, default, choices, minimum, unit (x-unit), help"
    )


class UseSerializer(serializers.Serializer[JsonObject]):
    says = serializers.CharField()
    least = serializers.IntegerField(help_text="0: may be left out")
    most = serializers.IntegerField()


class LayerSerializer(ToolSerializer):
    uses = serializers.DictField(child=UseSerializer(), help_text="What its disks are for")
    wants = serializers.CharField(
        help_text="What must be below it: nothing, devices, volume, pool …"
    )
    gives = serializers.CharField(help_text="What it gives to the layer above")
    grow = serializers.JSONField(
        allow_null=True, help_text="JSON schema of one growth's options; null: it cannot grow"
    )


class LayersSerializer(serializers.Serializer[JsonObject]):
    results = LayerSerializer(many=True)


class ToolsSerializer(serializers.Serializer[JsonObject]):
    results = ToolSerializer(many=True)


class SamplersSerializer(serializers.Serializer[JsonObject]):
    results = DriverSerializer(many=True)


class TopologyPresetSerializer(serializers.Serializer[JsonObject]):
    slug = serializers.CharField()
    group = serializers.CharField()
    name = serializers.CharField()
    says = serializers.CharField()
    stack = serializers.JSONField(help_text="As a topology's, to POST to /api/topologies/")
    stages = serializers.JSONField()
    wants = serializers.DictField(child=serializers.IntegerField(), help_text="Role -> spare disks")


class WorkloadPresetSerializer(serializers.Serializer[JsonObject]):
    slug = serializers.CharField()
    group = serializers.CharField()
    name = serializers.CharField()
    says = serializers.CharField()
    tool = serializers.CharField()
    options = serializers.JSONField(help_text="As a workload's, to POST to /api/workloads/")
    sweep = serializers.JSONField()


class CampaignPresetSerializer(serializers.Serializer[JsonObject]):
    slug = serializers.CharField()
    name = serializers.CharField()
    question = serializers.CharField()
    says = serializers.CharField()
    topologies = serializers.ListField(child=serializers.CharField(), help_text="Slugs")
    workloads = serializers.ListField(child=serializers.CharField(), help_text="Slugs")
    repeats = serializers.IntegerField()
    order = serializers.CharField()


class PresetsSerializer(serializers.Serializer[JsonObject]):
    topologies = TopologyPresetSerializer(many=True)
    workloads = WorkloadPresetSerializer(many=True)
    campaigns = CampaignPresetSerializer(many=True)


class DriverDescriptions(SingleAnswerViewSet[Any]):
    """Descriptions that every installation has, whoever asks: no team's rows."""

    queryset = Host.objects.none()


class Layers(DriverDescriptions):
    noun = "layer"
    serializer_class = LayersSerializer

    @extend_schema(responses=LayersSerializer)
    def list(self, request: Request) -> Response:
        """Every layer that a topology can have."""
        layers = [
            _layer_json(kind, driver) for kind, driver in sorted(registry.all_layers().items())
        ]
        return Response({"results": layers})


class Tools(DriverDescriptions):
    noun = "tool"
    serializer_class = ToolsSerializer

    @extend_schema(responses=ToolsSerializer)
    def list(self, request: Request) -> Response:
        """Every tool that a workload can name."""
        tools = [_tool_json(kind, driver) for kind, driver in sorted(registry.all_tools().items())]
        return Response({"results": tools})


class Samplers(DriverDescriptions):
    noun = "sampler"
    serializer_class = SamplersSerializer

    @extend_schema(responses=SamplersSerializer)
    def list(self, request: Request) -> Response:
        """List the samplers that are watched beside every run, where a host has them."""
        samplers = [
            _driver_json(kind, driver) for kind, driver in sorted(registry.all_samplers().items())
        ]
        return Response({"results": samplers})


class Presets(DriverDescriptions):
    noun = "preset"
    serializer_class = PresetsSerializer

    @extend_schema(responses=PresetsSerializer)
    def list(self, request: Request) -> Response:
        """Topologies, workloads and whole campaigns that are ready to use."""
        return Response(
            {
                "topologies": [
                    dataclasses.asdict(preset) | {"wants": preset.wants}
                    for preset in host_shapes.ALL_PRESETS
                ],
                "workloads": [
                    dataclasses.asdict(preset) for preset in workload_presets.ALL_PRESETS
                ],
                "campaigns": [
                    dataclasses.asdict(preset) for preset in workload_presets.ALL_CAMPAIGN_PRESETS
                ],
            }
        )


def _layer_json(kind: str, driver: Any) -> JsonObject:
    uses = {name: _use_json(use) for name, use in driver.USES.items()}
    growing = registry.implements(kind, protocols.Growable)
    return _tool_json(kind, driver) | {
        "uses": uses,
        "wants": driver.REQUIRES,
        "gives": driver.PROVIDES,
        "grow": options.schema(growing.Grow) if growing else None,
    }


def _use_json(use: Use) -> Mapping[str, Any]:
    return {"says": use.purpose, "least": use.least, "most": use.most}


def _driver_json(kind: str, driver: Any) -> JsonObject:
    first = (driver.__doc__ or "").split("\n\n")[0]
    return {"kind": kind, "label": driver.LABEL, "says": " ".join(first.split())}


def _tool_json(kind: str, driver: Any) -> JsonObject:
    needs = [_need_json(need) for need in driver.NEEDS]
    return _driver_json(kind, driver) | {"needs": needs, "options": options.schema(driver.Options)}


def _need_json(need: Need) -> Mapping[str, Any]:
    return {"program": need.program, "minimum": need.minimum, "packages": dict(need.packages)}
