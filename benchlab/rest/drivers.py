# SPDX-License-Identifier: Apache-2.0
"""Self-description of the drivers over REST: layers, tools, samplers and presets, with every option."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents import options
from agents.drivers import protocols, registry
from benchlab.campaigns import workload_presets
from benchlab.hosts.models import Host
from benchlab.rest.operations import ObjectSerializer, TextListField, TextsByNameField
from benchlab.topologies import host_shapes
from benchlab.web.api import SingleAnswerViewSet


class NeedSerializer(ObjectSerializer):
    program = serializers.CharField()
    minimum = serializers.CharField(help_text="Minimum version; empty: any")
    packages = TextsByNameField(help_text="OS family -> package")


class DriverSerializer(ObjectSerializer):
    kind = serializers.CharField()
    label = serializers.CharField(help_text="As pages call it")  # type: ignore[assignment]  # an attribute's name
    says = serializers.CharField(help_text="What it is, in a sentence or two")


class ToolSerializer(DriverSerializer):
    needs = NeedSerializer(many=True, help_text="Every program that it may use on the host")
    options = serializers.JSONField(
        help_text="JSON schema of its options: type, default, choices, minimum, unit (x-unit), help"
    )


class UseSerializer(ObjectSerializer):
    says = serializers.CharField(source="purpose")
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


class LayersSerializer(ObjectSerializer):
    results = LayerSerializer(many=True)


class ToolsSerializer(ObjectSerializer):
    results = ToolSerializer(many=True)


class SamplersSerializer(ObjectSerializer):
    results = DriverSerializer(many=True)


class TopologyPresetSerializer(ObjectSerializer):
    slug = serializers.CharField()
    group = serializers.CharField()
    name = serializers.CharField()
    says = serializers.CharField()
    stack = serializers.JSONField(help_text="As a topology's, to POST to /api/topologies/")
    stages = serializers.JSONField()
    wants = serializers.DictField(child=serializers.IntegerField(), help_text="Role -> spare disks")


class WorkloadPresetSerializer(ObjectSerializer):
    slug = serializers.CharField()
    group = serializers.CharField()
    name = serializers.CharField()
    says = serializers.CharField()
    tool = serializers.CharField()
    options = serializers.JSONField(help_text="As a workload's, to POST to /api/workloads/")
    sweep = serializers.JSONField()


class CampaignPresetSerializer(ObjectSerializer):
    slug = serializers.CharField()
    name = serializers.CharField()
    question = serializers.CharField()
    says = serializers.CharField()
    topologies = TextListField(help_text="Slugs")
    workloads = TextListField(help_text="Slugs")
    repeats = serializers.IntegerField()
    order = serializers.CharField()


class PresetsSerializer(ObjectSerializer):
    topologies = TopologyPresetSerializer(many=True)
    workloads = WorkloadPresetSerializer(many=True)
    campaigns = CampaignPresetSerializer(many=True)


class DriverDescriptions(SingleAnswerViewSet[Any]):
    """Descriptions that every installation has, whoever asks: no team's rows."""

    queryset = Host.objects.none()

    def describe(self) -> dict[str, Iterable[object]]:
        raise NotImplementedError

    def list(self, request: Request) -> Response:
        return Response(self.get_serializer(self.describe()).data)


class Layers(DriverDescriptions):
    """Every layer that a topology can have."""

    noun = "layer"
    serializer_class = LayersSerializer

    def describe(self) -> dict[str, Iterable[object]]:
        layers = sorted(registry.all_layers().items())
        return {"results": [_layer(kind, driver) for kind, driver in layers]}


class Tools(DriverDescriptions):
    """Every tool that a workload can name."""

    noun = "tool"
    serializer_class = ToolsSerializer

    def describe(self) -> dict[str, Iterable[object]]:
        tools = sorted(registry.all_tools().items())
        return {"results": [_tool(kind, driver) for kind, driver in tools]}


class Samplers(DriverDescriptions):
    """List the samplers that are watched beside every run, where a host has them."""

    noun = "sampler"
    serializer_class = SamplersSerializer

    def describe(self) -> dict[str, Iterable[object]]:
        samplers = sorted(registry.all_samplers().items())
        return {"results": [_driver(kind, driver) for kind, driver in samplers]}


class Presets(DriverDescriptions):
    """Topologies, workloads and whole campaigns that are ready to use."""

    noun = "preset"
    serializer_class = PresetsSerializer

    def describe(self) -> dict[str, Iterable[object]]:
        return {
            "topologies": host_shapes.ALL_PRESETS,
            "workloads": workload_presets.ALL_PRESETS,
            "campaigns": workload_presets.ALL_CAMPAIGN_PRESETS,
        }


def _driver(kind: str, driver: Any) -> dict[str, Any]:
    first = (driver.__doc__ or "").split("\n\n")[0]
    return {"kind": kind, "label": driver.LABEL, "says": " ".join(first.split())}


def _tool(kind: str, driver: Any) -> dict[str, Any]:
    options_schema = options.schema(driver.Options)
    return _driver(kind, driver) | {"needs": driver.NEEDS, "options": options_schema}


def _layer(kind: str, driver: Any) -> dict[str, Any]:
    growing = registry.implements(kind, protocols.Growable)
    return _tool(kind, driver) | {
        "uses": driver.USES,
        "wants": driver.REQUIRES,
        "gives": driver.PROVIDES,
        "grow": options.schema(growing.Grow) if growing else None,
    }
