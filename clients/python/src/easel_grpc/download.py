"""Downloads: code that the clients for threads and for asyncio share."""

import contextlib
import errno
import glob
import hashlib
import os
import re
import secrets
import time
from pathlib import Path
from typing import BinaryIO

import google_crc32c
import grpc

from easel_grpc import v1
from easel_grpc.errors import Damaged

STALE_AGE = 24 * 3600  # seconds since the last write after which a part file is regarded as abandoned

Target = str | os.PathLike[str] | BinaryIO


class Download:
    """The state of a download to a path or to the caller's open file.

    The download can span several streams. A file appears at the path only when it is complete.
    """

    def __init__(self, generation_id: str, to: Target) -> None:
        self.request = v1.DownloadGenerationRequest(generation_id=generation_id)  # request for the remaining bytes
        self.digest = hashlib.sha256()
        self.size: int | None = None
        self.started = False
        self.target: Path | None = None
        if not isinstance(to, (str, os.PathLike)):
            self.file = to
            return
        self.target = Path(to)
        if self.target.exists() and not self.target.is_file():
            raise OSError(errno.EINVAL, "not a regular file", str(to))
        _remove_stale(self.target)
        self.part = self.target.with_name(f".{self.target.name}.{secrets.token_hex(8)}.part")
        self.file = self.part.open("xb")  # creates a new file, and does not follow links

    def __enter__(self) -> "Download":
        return self

    def __exit__(self, *_: object) -> None:
        if self.target:
            try:
                self.file.close()  # flushes the last bytes, which fails on a full disk
            finally:
                self.part.unlink(missing_ok=True)

    def take(self, chunk: v1.ContentChunk) -> None:
        """Verifies a chunk and writes its bytes."""
        if chunk.offset != self.request.read_offset or google_crc32c.value(chunk.data) != chunk.crc32c:
            raise _damaged("downloaded bytes are damaged or missing")
        self.started = True
        self.file.write(chunk.data)
        self.digest.update(chunk.data)
        self.request.read_offset += len(chunk.data)
        self.request.etag = chunk.info.etag or self.request.etag
        if chunk.info.HasField("size_bytes"):
            self.size = chunk.info.size_bytes
        if chunk.HasField("summary") and chunk.summary.sha256 != self.digest.hexdigest():
            raise _damaged("the SHA-256 of the downloaded bytes differs from the server's")

    def resume(self) -> None:
        """Prepares the request for the next stream, or raises Damaged if the download can't continue.

        With an etag, the server ensures that the remaining bytes belong to the same content. Without an etag, the downloaded
        bytes are removed from the file, and the download restarts. For this, the file must be seekable, and its position must
        be at the end.
        """
        if self.request.etag or not self.request.read_offset:
            return
        self.file.flush()
        if not self.file.seekable() or self.file.tell() != self.file.seek(0, os.SEEK_END):
            raise _damaged("download cannot resume, because the content has no etag")
        self.file.seek(-self.request.read_offset, os.SEEK_END)
        self.file.truncate()
        self.request.read_offset = 0
        self.digest = hashlib.sha256()
        self.size = None

    def finish(self) -> None:
        """Checks that all bytes have arrived. If the target is a path, it also syncs the file to disk and renames it."""
        if not self.started:
            raise _damaged("the server sent no bytes")
        if self.size not in (None, self.request.read_offset):
            raise _damaged(f"received {self.request.read_offset} of {self.size} bytes")
        if self.target:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
            self.part.replace(self.target)


def _remove_stale(target: Path) -> None:
    """Removes the part files of killed downloads to the same file.

    It keeps part files that were written during the last day, because they may belong to running downloads.
    """
    for part in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with contextlib.suppress(OSError):  # if the part file can't be removed, the next download tries again
            if re.fullmatch(r"[\w-]+", part.name[len(target.name) + 2 : -len(".part")]) and time.time() - part.stat().st_mtime > STALE_AGE:
                part.unlink()


def _damaged(text: str) -> Damaged:
    return Damaged(text, code=grpc.StatusCode.DATA_LOSS)
