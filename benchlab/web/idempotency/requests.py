# SPDX-License-Identifier: Apache-2.0
"""Idempotency-Key: the same request again gets the first one's answer and does nothing.

Requests with one key wait for each other by an advisory lock, which dies with its connection. A row without an answer
whose lock is free is of a request that was cut short: it is never done again by itself.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from datetime import timedelta

import orjson
from django.db import connection
from django.utils import timezone
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.web.idempotency.models import KeptAnswer
from benchlab.web.problem import PROBLEM_TYPE
from benchlab.web.rendering import OrjsonRenderer

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
# of an invitation, of a share: nowhere in the database
SECRET_FIELDS = frozenset({"link", "token"})
RETENTION = timedelta(hours=24)
# characters of a key
MAX_KEY_LENGTH = 255
MAX_WAIT_SECONDS, POLL_SECONDS = 30.0, 0.05
PIECE_BYTES = 1 << 20


class KeyConflict(APIException):
    status_code = 409
    default_code = "conflict"


class IdempotentRequest:
    """One request with a key: `begin`, then `keep` the answer, and `end` whatever happens."""

    def __init__(self, request: Request, key: str) -> None:
        if not (0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
            raise ValidationError(
                {HEADER: [f"Give 1 to {MAX_KEY_LENGTH} printable ASCII characters."]}
            )
        # of a person: the permissions were asked
        self.user: int = request.user.pk or 0
        self.key = key
        self.digest = _request_digest(request)
        seed = hashlib.sha256(f"{self.user} {key}".encode()).digest()
        self.lock = int.from_bytes(seed[:8], "big", signed=True)
        self.row: KeptAnswer | None = None

    def claim_key(self) -> Response | None:
        """The first one's answer, or None: do it. Raises KeyConflict. After it, `end` must be called."""
        self._acquire_lock()
        try:
            return self._stored_response()
        except BaseException:
            self.release_key()
            raise

    def _stored_response(self) -> Response | None:
        mine = KeptAnswer.objects.filter(user=self.user)
        KeptAnswer.objects.filter(created_at__lt=timezone.now() - RETENTION).delete()
        stored = mine.filter(key=self.key).first()
        if stored is None:
            self.row = mine.create(user_id=self.user, key=self.key, digest=self.digest)
            return None
        if stored.digest != self.digest:
            raise KeyConflict(f"{HEADER}: this key was sent with another request; use a new one.")
        if stored.status is None:
            raise KeyConflict(
                f"{HEADER}: the first request with this key was interrupted, and it is unknown how far it got. "
                "Check whether it was done, then send what is missing with a new key."
            )
        body = orjson.loads(stored.body) if stored.body else None
        kind = PROBLEM_TYPE if stored.status >= 400 else None
        headers = {REPLAYED: "true"}
        return Response(body, stored.status, headers=headers, content_type=kind)

    def store_response(self, response: Response) -> None:
        """Keep the answer, a refusal's too: the same request gets the same one. But nothing that opens doors."""
        if self.row is None or response.status_code >= 500:
            return
        content = response.data
        if isinstance(content, dict):
            content = {
                name: None if name in SECRET_FIELDS else value for name, value in content.items()
            }
        body = OrjsonRenderer().render(content).decode()
        KeptAnswer.objects.filter(pk=self.row.pk).update(status=response.status_code, body=body)

    def _acquire_lock(self) -> None:
        until = time.monotonic() + MAX_WAIT_SECONDS
        while not self._call_lock_function("pg_try_advisory_lock"):
            if time.monotonic() > until:
                raise KeyConflict(
                    f"{HEADER}: the first request with this key is still in progress."
                )
            time.sleep(POLL_SECONDS)

    def release_key(self) -> None:
        self._call_lock_function("pg_advisory_unlock")

    def _call_lock_function(self, function: str) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {function}(%s)", [self.lock])
            return bool(cursor.fetchone()[0])


def _request_digest(request: Request) -> str:
    digest = hashlib.sha256()
    for part in _digest_parts(request):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _digest_parts(request: Request) -> Iterator[bytes]:
    yield from (str(request.method).encode(), request.get_full_path().encode())
    if not str(request.content_type).startswith("multipart/"):
        yield request._request.body
        return
    for name, values in sorted(request.POST.lists()):
        yield from (name.encode(), *(value.encode() for value in values))
    for name, file in sorted(request.FILES.items()):
        yield from (name.encode(), str(file.name).encode())
        while piece := file.read(PIECE_BYTES):
            yield piece
        file.seek(0)
