"""What the downloads of both clients share."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import google_crc32c

from easel import v1
from easel.errors import DamagedError

Target = str | os.PathLike[str] | BinaryIO


@contextlib.contextmanager
def opened(to: Target) -> Iterator[BinaryIO]:
    """Opens a file that has its name when it is whole. A stream is the caller's own."""
    if not isinstance(to, (str, os.PathLike)):
        yield to
        return
    target = Path(to)
    part = target.with_name(f".{target.name}.{secrets.token_hex(5)}.part")
    with part.open("xb") as file:  # a new file: a link that somebody has put there is not followed
        try:
            yield file
            file.close()
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


class Download:
    """How far a download has come."""

    def __init__(self, generation_id: str, file: BinaryIO) -> None:
        self.request = v1.DownloadGenerationRequest(generation_id=generation_id)  # of the rest
        self.file = file
        self.digest = hashlib.sha256()
        self.size: int | None = None

    def take(self, chunk: v1.ContentChunk) -> None:
        """Writes the next bytes."""
        if chunk.offset != self.request.read_offset or google_crc32c.value(chunk.data) != chunk.crc32c:
            raise DamagedError("bytes arrived damaged")
        self.file.write(chunk.data)
        self.digest.update(chunk.data)
        self.request.read_offset += len(chunk.data)
        self.request.etag = chunk.info.etag or self.request.etag
        if chunk.info.HasField("size_bytes"):
            self.size = chunk.info.size_bytes
        if chunk.HasField("summary") and chunk.summary.sha256 != self.digest.hexdigest():
            raise DamagedError("the file is not that of the server")

    def check(self) -> None:
        """Is called at the end."""
        if self.size not in (None, self.request.read_offset):
            raise DamagedError(f"{self.request.read_offset} bytes arrived of {self.size}")
