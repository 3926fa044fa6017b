# SPDX-License-Identifier: Apache-2.0
"""WSGI entry point, for tests and other servers; over it live pages go by their clock alone."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")

application = get_wsgi_application()
