"""The download path, against a file server on the loopback address: good, tampered with, cut short, missing, slow."""

import hashlib
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tools.support import PLATFORM, SCRIPT, FileServer, publish, release, source_of
from tools.download import download, published_digest
from tools.errors import DownloadError
from tools.network import Network

ARCHIVE = "/gadget-v1.2.3-linux-amd64.tar.gz"


def test_a_good_archive_gives_its_binary(server: FileServer, network: Network, tmp_path: Path):
    publish(server)
    seen: list[tuple[int, int | None]] = []
    download(release(server.url), PLATFORM, tmp_path, network, lambda done, total: seen.append((done, total)))
    assert (tmp_path / "gadget").read_bytes() == SCRIPT
    assert (tmp_path / "gadget").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["gadget"]
    assert seen[-1] == (len(server.files[ARCHIVE]), len(server.files[ARCHIVE]))


def test_another_content_than_published_is_thrown_away(server: FileServer, network: Network, tmp_path: Path):
    publish(server)
    server.files[ARCHIVE] += b"tampered"
    with pytest.raises(DownloadError, match=r"SHA-256 .* was published; it was thrown away"):
        download(release(server.url), PLATFORM, tmp_path, network)
    assert not (tmp_path / "gadget").exists()


def test_a_pinned_digest_wins_over_the_published_one(server: FileServer, network: Network, tmp_path: Path):
    content = publish(server)
    good = release(server.url)
    pinned = replace(
        good, download=replace(source_of(good), sha256={ARCHIVE[1:]: hashlib.sha256(b"other").hexdigest()})
    )
    with pytest.raises(DownloadError, match="SHA-256"):
        download(pinned, PLATFORM, tmp_path, network)
    pinned = replace(good, download=replace(source_of(good), sha256={ARCHIVE[1:]: hashlib.sha256(content).hexdigest()}))
    server.files.pop("/SHA256SUMS")
    (again := tmp_path / "again").mkdir()
    download(pinned, PLATFORM, again, network)
    assert (again / "gadget").exists()


def test_a_file_without_a_published_checksum_is_refused_unread(server: FileServer, network: Network, tmp_path: Path):
    publish(server)
    server.files["/SHA256SUMS"] = f"{'0' * 64}  another-file\n{'1' * 64}  yet-another\n".encode()
    with pytest.raises(DownloadError, match="nothing is used unchecked"):
        download(release(server.url), PLATFORM, tmp_path, network)
    assert server.requests_for(ARCHIVE) == 0


def test_a_truncated_transfer_is_an_error(server: FileServer, network: Network, tmp_path: Path):
    publish(server)
    server.truncated.add(ARCHIVE)
    with pytest.raises(DownloadError, match="broke off after"):
        download(release(server.url), PLATFORM, tmp_path, network)


def test_a_transfer_that_breaks_off_once_is_begun_again(server: FileServer, network: Network, tmp_path: Path):
    publish(server)
    server.mute.add("/")
    server.mute.add("/SHA256SUMS")
    server.once.add(ARCHIVE)
    download(release(server.url), PLATFORM, tmp_path, network)
    assert (tmp_path / "gadget").read_bytes() == SCRIPT


def test_a_missing_file_names_the_address_and_the_status(server: FileServer, network: Network, tmp_path: Path):
    publish(server)
    server.files.pop(ARCHIVE)
    with pytest.raises(DownloadError, match=r"gadget-v1\.2\.3-linux-amd64\.tar\.gz answered 404"):
        download(release(server.url), PLATFORM, tmp_path, network)


def test_a_server_that_stalls_is_given_up(server: FileServer, tmp_path: Path):
    publish(server)
    server.stalled.add(ARCHIVE)
    started = time.monotonic()
    with pytest.raises(DownloadError, match="did not answer in time"):
        download(release(server.url), PLATFORM, tmp_path, Network(stall_seconds=1.0))
    assert time.monotonic() - started < 15, "the server would hold it for 20 s"


def test_a_broken_archive_is_an_error(server: FileServer, network: Network, tmp_path: Path):
    publish(server)
    content = b"not an archive"
    server.files[ARCHIVE] = content
    server.files["/SHA256SUMS"] = f"{hashlib.sha256(content).hexdigest()}  {ARCHIVE[1:]}\n".encode()
    with pytest.raises(DownloadError, match="can't be unpacked"):
        download(release(server.url), PLATFORM, tmp_path, network)


def test_an_archive_without_the_binary_is_an_error(server: FileServer, network: Network, tmp_path: Path):
    publish(server, {"gadget-v1.2.3/README": b"x"})
    with pytest.raises(DownloadError, match=r"holds no gadget-v1\.2\.3/gadget"):
        download(release(server.url), PLATFORM, tmp_path, network)


def test_companions_come_along_where_the_archive_has_them(server: FileServer, network: Network, tmp_path: Path):
    publish(server, {"./gadget-v1.2.3/gadget": SCRIPT, "./gadget-v1.2.3/helper": b"h"})
    good = release(server.url)
    download(
        replace(good, download=replace(source_of(good), companions=("helper", "absent"))), PLATFORM, tmp_path, network
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gadget", "helper"]


def test_a_bare_binary_with_a_checksum_of_its_own(server: FileServer, network: Network, tmp_path: Path):
    server.files["/gadget"] = SCRIPT
    server.files["/gadget.sha256"] = hashlib.sha256(SCRIPT).hexdigest().encode()
    good = release(server.url)
    bare = replace(source_of(good), url=server.url + "/{name}", checksums=server.url + "/{name}.sha256", member=None)
    download(replace(good, download=bare), PLATFORM, tmp_path, network)
    assert (tmp_path / "gadget").read_bytes() == SCRIPT


def test_a_platform_without_a_release_asks_nobody(server: FileServer, network: Network, tmp_path: Path):
    with pytest.raises(DownloadError, match="no official download for plan9-mips"):
        download(release(server.url), "plan9-mips", tmp_path, network)
    assert server.asked == []


DIGEST = "a" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{DIGEST}  gadget\n", DIGEST),
        (f"{'b' * 64}  other\n{DIGEST} *gadget\n", DIGEST),
        (DIGEST.upper() + "\n", DIGEST),
        (f"{DIGEST}  gadget.sig\n", None),
        ("not-a-digest  gadget\n", None),
        ("", None),
        (json.dumps({"assets": [{"name": "gadget", "digest": f"sha256:{DIGEST}"}]}), DIGEST),
        (json.dumps({"assets": [{"name": "gadget", "digest": None}]}), None),
        (json.dumps({"assets": [{"name": "gadget", "digest": f"md5:{DIGEST}"}]}), None),
        (json.dumps({"assets": [{"name": "other", "digest": f"sha256:{DIGEST}"}]}), None),
        (json.dumps({"message": "rate limit"}), None),
    ],
)
def test_published_digests_are_read_in_every_form(text: str, expected: str | None):
    assert published_digest(text, "gadget") == expected
