"""versions.toml: complete, well-formed, and in step with the wrapper modules and the Python packages."""

import re
import tomllib

import pytest

from tools import releases
from tools.places import GO_MODULES, ROOT
from tools.releases import Debian, Download, GoModule, Release

ALL = releases.load()


DOWNLOADED = [(release, release.download) for release in ALL if release.download]


@pytest.mark.parametrize(("release", "download"), DOWNLOADED, ids=[release.name for release, _ in DOWNLOADED])
@pytest.mark.parametrize("platform", ["linux-amd64", "linux-arm64"])
def test_every_template_fills(release: Release, download: Download, platform: str):
    for name in release.binaries:
        for template in (download.url, download.checksums, download.member or ""):
            filled = release.fill(template, platform, name)
            assert "{" not in filled
            assert filled == "" or filled.startswith("https://") or download.member
        assert release.version in release.fill(download.url, platform, name)
    assert platform in download.platforms


BUILT = [(release, release.go) for release in ALL if release.go]
PACKAGED = [(release, release.debian) for release in ALL if release.debian]


@pytest.mark.parametrize(("release", "go"), BUILT, ids=[release.name for release, _ in BUILT])
def test_a_build_is_from_a_module_with_pinned_sources(release: Release, go: GoModule):
    module = GO_MODULES / go.module
    assert set(go.packages) == set(release.binaries)
    assert (module / "go.sum").stat().st_size > 1000
    assert "{" not in release.fill(go.ldflags, "any-any")


@pytest.mark.parametrize(("release", "debian"), PACKAGED, ids=[release.name for release, _ in PACKAGED])
@pytest.mark.parametrize("platform", ["linux-amd64", "linux-arm64"])
def test_debian_packages_are_of_the_release_and_pinned(release: Release, debian: Debian, platform: str):
    assert set(debian.members) == set(release.binaries)
    for pin in debian.packages[platform]:
        assert f"_{release.version}" in pin.path
        assert pin.path.endswith(f"_{platform.removeprefix('linux-')}.deb")
        assert len(pin.sha256) == 64


def test_every_release_has_a_way_besides_the_download():
    assert [release.name for release in ALL if not (release.go or release.debian)] == []


def test_go_modules_require_the_pinned_versions():
    required = {
        "pulumi": "github.com/pulumi/pulumi/pkg/v3",
        "etcd": "go.etcd.io/etcd/server/v3",
        "kubernetes": "k8s.io/kubernetes",
        "kwok": "sigs.k8s.io/kwok",
        "kueue": "sigs.k8s.io/kueue",
        "alertmanager": "github.com/prometheus/alertmanager",
    }
    for release, go in BUILT:
        if release.name in required:
            text = (GO_MODULES / go.module / "go.mod").read_text()
            found = re.search(rf"{re.escape(required[release.name])} v(\S+)", text)
            assert found is not None
            assert found[1] == release.version


def test_a_real_environment_needs_only_pulumi_and_its_kubernetes_plugin():
    names = [name for release in releases.needed_for("cloud", ALL) for name in release.binaries]
    assert names == ["pulumi", "pulumi-resource-kubernetes"]


def test_what_few_need_is_fetched_only_when_it_is_asked_for():
    assert [release.name for release in releases.needed_for("kueue", ALL)] == ["kueue"]
    assert [release.name for release in releases.needed_for("workflows", ALL)] == ["actionlint"]
    assert [release.name for release in releases.needed_for("monitoring", ALL)] == ["prometheus", "alertmanager"]
    few = {"kueue", "actionlint", "prometheus", "alertmanager"}
    assert [*releases.needed_for("dev", ALL)] == [release for release in ALL if release.name not in few]


def test_the_pulumi_architecture_names_are_its_own():
    pulumi = next(release for release in ALL if release.name == "pulumi")
    assert pulumi.download is not None
    assert pulumi.fill(pulumi.download.url, "linux-amd64").endswith("pulumi-v3.274.1-linux-x64.tar.gz")
    assert pulumi.fill(pulumi.download.url, "linux-arm64").endswith("pulumi-v3.274.1-linux-arm64.tar.gz")


def test_no_other_file_names_a_version():
    versions = {release.version for release in ALL}
    for path in (ROOT / "tools").rglob("*.py"):
        assert not any(f'"{version}"' in path.read_text() for version in versions), path


def test_the_file_has_no_unknown_keys():
    with (ROOT / "tools" / "versions.toml").open("rb") as file:
        tables = tomllib.load(file)
    known = {"version", "binaries", "needed_for", "seconds", "probe", "probes", "installed", "download", "go", "debian"}
    assert {key for table in tables.values() for key in table} <= known
