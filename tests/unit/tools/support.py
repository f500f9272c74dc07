"""A release as small as one can be, and what a file server on the loopback address serves of it, well or badly."""

import hashlib
import io
import tarfile
from dataclasses import dataclass, field

from tools.releases import Download, GoModule, Release

PLATFORM = "linux-amd64"
SCRIPT = b"#!/bin/sh\necho gadget v1.2.3\n"


@dataclass
class FileServer:
    """What a test server answers: content by path, and paths that misbehave: cut short always or only at first, without
    an answer at first, or never done."""

    port: int
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    truncated: set[str] = field(default_factory=set[str])
    mute: set[str] = field(default_factory=set[str])
    once: set[str] = field(default_factory=set[str])
    stalled: set[str] = field(default_factory=set[str])
    asked: list[str] = field(default_factory=list[str])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def requests_for(self, path: str) -> int:
        return self.asked.count(path)


def archive(members: dict[str, bytes]) -> bytes:
    """A tar.gz with these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def release(url: str) -> Release:
    """The release `gadget` 1.2.3, an archive with one binary."""
    return Release(
        name="gadget",
        version="1.2.3",
        binaries=("gadget",),
        needed_for="cloud",
        seconds=7,
        probe=("version",),
        download=Download(
            url=url + "/gadget-v{version}-{os}-{arch}.tar.gz",
            checksums=url + "/SHA256SUMS",
            platforms=(PLATFORM,),
            member="gadget-v{version}/{name}",
        ),
        go=GoModule(module="gadget", packages={"gadget": "example.com/gadget"}, ldflags="-X main.version={version}"),
    )


def source_of(given: Release) -> Download:
    """Where a release lies that has a download."""
    assert given.download is not None
    return given.download


def publish(server: FileServer, members: dict[str, bytes] | None = None) -> bytes:
    """Serve the archive and its checksums; return the archive."""
    content = archive(members or {"gadget-v1.2.3/gadget": SCRIPT})
    name = "gadget-v1.2.3-linux-amd64.tar.gz"
    server.files[f"/{name}"] = content
    server.files["/SHA256SUMS"] = f"{'0' * 64}  other\n{hashlib.sha256(content).hexdigest()}  {name}\n".encode()
    return content
