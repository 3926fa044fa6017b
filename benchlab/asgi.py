"""ASGI entry point: uvicorn benchlab.asgi:application. The settings see by this module that they are a web server's."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")

application = get_asgi_application()
