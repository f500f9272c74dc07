"""A pool that can't work is refused in the preview's own words, or the drill fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from drill.refusal import Previewer, told
from drill.site import SiteError

SAID = """\
Previewing update (dev):
    error: Program failed
        \x1b[31mplatform.nodePools.train.type: l40s-48gb.1x is a slice of a host. Use the whole host.\x1b[0m
"""
POOLS = {"system": {"type": "c1a.8x"}, "train": {"type": "h100-80gb-sxm-ib.8x", "count": 2}}


def test_the_refusal_is_the_line_about_the_pool() -> None:
    seen = told(SAID, 255, "train")
    assert (seen.source, seen.kind) == ("drill", "refused")
    assert seen.what["why"] == "platform.nodePools.train.type: l40s-48gb.1x is a slice of a host. Use the whole host."


def test_a_preview_that_accepts_it_or_fails_for_another_reason_is_no_refusal() -> None:
    with pytest.raises(SiteError, match=r"accepts platform\.nodePools\.train\.type"):
        told(SAID, 0, "train")
    with pytest.raises(SiteError, match="another reason: passphrase"):
        told("error: x\npassphrase must be set\n\n", 255, "train")


@pytest.mark.parametrize("key", ["platform", "crusoe-gpu-platform:platform"])
def test_the_first_gpu_pool_has_another_type_in_a_file_that_goes_again(tmp_path: Path, key: str) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump({"config": {key: {"nodePools": POOLS}}}))
    before = file.read_text()
    program = (
        "import sys, yaml; pools = yaml.safe_load(open(sys.argv[1]))['config'][sys.argv[2]]['nodePools'];"
        "print(f\"platform.nodePools.train.type: {pools['train']['type']} {pools['system']['type']}\"); sys.exit(1)"
    )
    changed = tmp_path / "changed"
    changed.mkdir()

    wrapper = tmp_path / "preview"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "$PROGRAM" "$1" "{key}"\n')
    wrapper.chmod(0o755)
    found = Previewer(["/usr/bin/env", f"PROGRAM={program}", str(wrapper)], file).refusal("l40s-48gb.1x", changed)
    assert found.what["why"] == "platform.nodePools.train.type: l40s-48gb.1x c1a.8x"
    assert file.read_text() == before
    assert list(changed.iterdir()) == []


def test_a_stack_without_gpus_has_nothing_to_refuse(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump({"config": {"platform": {"nodePools": {"system": {"type": "c1a.8x"}}}}}))
    with pytest.raises(SiteError, match="no pool with GPUs"):
        Previewer(["false"], file).refusal("l40s-48gb.1x", tmp_path)
