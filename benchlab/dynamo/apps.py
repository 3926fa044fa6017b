# SPDX-License-Identifier: Apache-2.0
"""The app; its label says that it is ours."""

from __future__ import annotations

from django.apps import AppConfig


class DynamoConfig(AppConfig):
    name = "benchlab.dynamo"
