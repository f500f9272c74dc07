"""A Debian archive as small as one can be, served by a file server of the tests."""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path

from tests.unit.tools.support import FileServer
from tools.slurm_root.packages import WANTED

VERSION = "26.05.9-1"


def deb(files: Mapping[str, str], links: Mapping[str, str] | None = None, *, name: str = "data.tar.xz") -> bytes:
    """A .deb with these files and symbolic links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=0) as tar:
        tar.addfile(_folder("./"))
        for path, text in files.items():
            info = tarfile.TarInfo(f"./{path}")
            info.size, info.mode = len(text.encode()), 0o4755
            tar.addfile(info, io.BytesIO(text.encode()))
        for path, target in (links or {}).items():
            info = tarfile.TarInfo(f"./{path}")
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return b"!<arch>\n" + _member("debian-binary", b"2.0\n") + _member("x", b"odd") + _member(name, buffer.getvalue())


def _folder(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    return info


def _member(name: str, content: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
    return head.encode() + content + b"\n" * (len(content) % 2)


def paragraph(name: str, content: bytes, version: str, **fields: str) -> str:
    """One package of a package list."""
    known = {
        "Package": name,
        "Version": version,
        "Filename": path_of(name),
        "Size": str(len(content)),
        "SHA256": hashlib.sha256(content).hexdigest(),
        **fields,
    }
    return "".join(f"{key}: {value}\n" for key, value in known.items())


def path_of(name: str) -> str:
    return f"pool/{name}_1_amd64.deb"


def publish(server: FileServer, *, version: str = VERSION) -> list[tuple[str, bytes]]:
    """Serve every wanted package below /debian, with its lists; returns the packages' files by name."""
    contents: list[tuple[str, bytes]] = []
    for suite, names in WANTED.items():
        listed: list[str] = []
        for name in names:
            files = {f"usr/bin/{name}": name, f"usr/share/doc/{name}/README": "read me"}
            content = deb(files, {"bin": "usr/bin"} if name == "base-files" else None)
            contents.append((name, content))
            server.files[f"/debian/{path_of(name)}"] = content
            listed.append(paragraph(name, content, version))
        packed = lzma.compress("\n".join(listed).encode(), preset=0)
        server.files[f"/debian/dists/{suite}/main/binary-amd64/Packages.xz"] = packed
        digest = hashlib.sha256(packed).hexdigest()
        release = (
            f"Date: Fri, 30 Oct 2026 08:08:01 UTC\nSHA256:\n {digest} {len(packed)} main/binary-amd64/Packages.xz\n"
        )
        server.files[f"/debian/dists/{suite}/InRelease"] = release.encode()
    return contents


def trusting_gpgv(folder: Path) -> None:
    """Put a `gpgv` there that finds every signature good."""
    folder.mkdir(exist_ok=True)
    script = folder / "gpgv"
    # Arguments: --quiet --keyring K --output TARGET FILE
    script.write_text('#!/bin/sh\n/bin/cp "$6" "$5"\n')
    script.chmod(0o755)
