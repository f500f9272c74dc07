"""The language host's runner of policy packs: the SDK is set up when a pack imports it, and not before."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.places import ROOT

STACK = {
    "PULUMI_PROJECT": "house",
    "PULUMI_STACK": "prod",
    "PULUMI_DRY_RUN": "true",
    "PULUMI_CONFIG": '{"house:color": "blue"}',
}


def run(folder: Path, pack: str) -> subprocess.CompletedProcess[str]:
    (folder / "__main__.py").write_text(pack)
    (folder / "beside.py").write_text("WORD = 'beside'")
    command = [sys.executable, "-u", str(ROOT / "tools/language_host/policy.py"), "127.0.0.1:1", str(folder)]
    return subprocess.run(command, env=STACK, capture_output=True, text=True, timeout=30, check=False)


def test_a_pack_that_imports_the_sdk_knows_its_stack(tmp_path: Path):
    pack = "import pulumi, beside\nprint(pulumi.get_stack(), pulumi.Config('house').get('color'), beside.WORD)"
    done = run(tmp_path, pack)
    assert done.stdout.split() == ["prod", "blue", "beside"], done.stderr


def test_a_pack_that_needs_none_of_it_does_not_pay_for_it(tmp_path: Path):
    done = run(tmp_path, "import sys\nprint('pulumi' in sys.modules)")
    assert done.stdout.split() == ["False"]


@pytest.mark.parametrize(("pack", "status"), [("raise ValueError('the reason')", 1), ("raise SystemExit(3)", 3)])
def test_a_pack_that_fails_says_so(tmp_path: Path, pack: str, status: int):
    done = run(tmp_path, pack)
    assert done.returncode == status
    assert ("the reason" in done.stderr) == (status == 1)
