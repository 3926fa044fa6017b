# SPDX-License-Identifier: Apache-2.0
"""Uploads on their way in: how much is taken, and where it waits."""

from __future__ import annotations

import tempfile
from typing import IO, Any, cast

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest

# bytes of a whole request: files of 100 MB, and what a form adds
MAX_REQUEST_BYTES = 105 * 2**20
# settings.DATA_UPLOAD_MAX_MEMORY_SIZE
MAX_PASTED_BYTES = 5 * 2**20
# of each file; the rest of it waits on disk
IN_MEMORY = 256 * 2**10
TOO_LARGE = (
    "That is more than 100 MB in one upload. Pack it (zip, tar.gz, xz), or send it in parts."
)
TOO_LONG = "That is more than 5 MB of pasted text. Save it as a file and choose that."
TOO_MANY = "Those are more than 2,000 files in one upload. Send them in an archive, or in parts."


class Spooled(FileUploadHandler):
    """Small files stay in memory, or a thousand of them would need a thousand open files."""

    spool: IO[bytes]

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        spool = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # the request closes it
        self.spool = cast("IO[bytes]", spool)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.spool.write(raw_data)

    def file_complete(self, file_size: int) -> UploadedFile[Any]:
        self.spool.seek(0)
        return UploadedFile(
            file=self.spool, name=self.file_name, content_type=self.content_type, size=file_size
        )


def is_too_large(request: HttpRequest) -> bool:
    """Before anything of it is read."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    return length.isdigit() and int(length) > MAX_REQUEST_BYTES
