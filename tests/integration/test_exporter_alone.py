"""The exporter of a stack without Slurm: what it can see it tells, and nothing else."""

from __future__ import annotations

import pytest

from tests.harness import Result, execute, until
from tests.integration.conftest import NewProject
from tests.scraping import Watch
from tools import places
from tools.errors import ToolMissingError
from tools.slurm_root.root import folder as slurm_root

pytestmark = pytest.mark.integration


def test_without_slurm_and_without_a_key_there_are_nodes_and_no_word_of_anything_else(new_project: NewProject) -> None:
    try:
        slurm_root()
    except ToolMissingError as error:
        # Its Python is that of the folder with Slurm.
        pytest.skip(str(error))
    project = new_project("alone")
    project.use_settings("dev", {"exporter": {"pollSeconds": 1}})
    project.up()
    kubeconfig = project.folder / "kubeconfig"
    kubeconfig.write_text(project.outputs("--show-secrets")["kubeconfig"])
    program = [str(places.BIN / "kubectl"), "--kubeconfig", str(kubeconfig)]

    def kubectl(*arguments: str, check: bool = True) -> Result:
        done = execute([*program, *arguments], project.folder, project.environment(), 60)
        assert not check or done.code == 0, done.text
        return done

    watch = Watch(kubectl, "gpuplatform")
    until(lambda: bool(watch.scrape()("pool_nodes_ready", "pool")), 60, "the nodes")
    found = watch.scrape()
    assert found("pool_nodes_ready", "pool") == {("system",): 2, ("train",): 2}
    assert found("source_configured", "source") == {
        ("autoclusters",): 0,
        ("crusoe",): 0,
        ("slurm",): 0,
        ("kubernetes",): 1,
    }
    for name in ("slurm_jobs", "repairs_total", "pool_nodes_wanted", "quota_used", "credential_accepted"):
        assert found(name) == {}, name
    said = watch.log()
    assert "there is no access key" in said
    assert "there is no Slurm here" in said
    project.destroy()
