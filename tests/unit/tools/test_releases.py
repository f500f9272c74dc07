"""versions.toml: complete, well-formed, and in step with the wrapper modules and the Python packages."""

import re
import tomllib

import pytest

from tools import releases
from tools.places import GO_MODULES, ROOT
from tools.releases import Download, Release

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


@pytest.mark.parametrize("release", ALL, ids=lambda release: release.name)
def test_every_release_can_be_built_from_a_module_with_pinned_sources(release: Release):
    module = GO_MODULES / release.go.module
    assert set(release.go.packages) == set(release.binaries)
    assert (module / "go.sum").stat().st_size > 1000
    assert "{" not in release.fill(release.go.ldflags, "any-any")


def test_go_modules_require_the_pinned_versions():
    required = {
        "pulumi": "github.com/pulumi/pulumi/pkg/v3",
        "etcd": "go.etcd.io/etcd/server/v3",
        "kubernetes": "k8s.io/kubernetes",
        "kwok": "sigs.k8s.io/kwok",
        "kueue": "sigs.k8s.io/kueue",
    }
    for release in ALL:
        if release.name in required:
            text = (GO_MODULES / release.go.module / "go.mod").read_text()
            found = re.search(rf"{re.escape(required[release.name])} v(\S+)", text)
            assert found is not None
            assert found[1] == release.version


def test_a_real_environment_needs_only_pulumi_and_its_kubernetes_plugin():
    names = [name for release in releases.needed_for("cloud", ALL) for name in release.binaries]
    assert names == ["pulumi", "pulumi-resource-kubernetes"]


def test_what_few_need_is_fetched_only_when_it_is_asked_for():
    assert [release.name for release in releases.needed_for("kueue", ALL)] == ["kueue"]
    assert [release.name for release in releases.needed_for("workflows", ALL)] == ["actionlint"]
    few = {"kueue", "actionlint"}
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
    known = {"version", "binaries", "needed_for", "seconds", "probe", "probes", "installed", "download", "go"}
    assert {key for table in tables.values() for key in table} <= known
