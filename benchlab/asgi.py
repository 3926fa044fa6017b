"""ASGI entry point: uvicorn benchlab.asgi:application. The settings see by this module that they are a web server's."""

from __future__ import annotations

import os

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponseBase
from django.urls import get_resolver

from benchlab.celery import app

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")


class Application(ASGIHandler):
    """Django's own, but a request stays in one thread from the first middleware to the last.

    Django's would go back to the event loop between any two of them, two times for each: some thirty changes of thread
    cost more than most pages, and each waits for its turn behind all other threads. What is streamed is still taken by
    the event loop, so an open page costs no thread.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)


def load_all() -> None:
    """What the first request of its kind would else load while all others wait: each page's code, Celery and its tasks.

    The first press that gives a worker something to do took seconds when a hundred people were about.
    """
    get_resolver().url_patterns  # noqa: B018
    app.loader.import_default_modules()
    app.finalize()
    with app.connection_for_write() as connection:  # which opens none
        _ = connection.transport, app.amqp.producer_pool, app.events.Dispatcher


django.setup(set_prefix=False)
load_all()
application = Application()
