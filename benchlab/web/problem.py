# SPDX-License-Identifier: Apache-2.0
"""Error responses of the API, as a serializer and a media type: below the views, for the schema names it too."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

PROBLEM_TYPE = "application/problem+json"


class Problem(serializers.Serializer[dict[str, Any]]):
    """The one error shape (RFC 9457): `errors` names the fields of a refused request."""

    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = serializers.DictField(  # type: ignore[assignment]  # the name of one of its attributes
        child=serializers.ListField(child=serializers.CharField()), required=False
    )
