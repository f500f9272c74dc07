"""The arrows of the house: who may import whom, and what an `up` never loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {
    "__main__",
    "actor",
    "components",
    "crusoe",
    "drill",
    "exporter",
    "policies",
    "gitops",
    "environments",
    "localcloud",
    "training",
    "tools",
    "tests",
}

# From each part to the parts of this project that it may import. The longest prefix that fits a module counts.
ALLOWED: dict[str, set[str]] = {
    "__main__": {"components"},
    "actor": {"actor"},
    "components": {"components", "crusoe.catalog", "crusoe.resources", "crusoe.rules"},
    "crusoe.catalog": set(),
    "crusoe.rules": {"crusoe.catalog", "crusoe.rules"},
    "crusoe.client": {"crusoe.client"},
    "crusoe.resources": {"crusoe.resources"},
    "crusoe.provider": {"crusoe.catalog", "crusoe.client", "crusoe.provider", "crusoe.rules"},
    "crusoe": {"crusoe"},
    "policies": {"policies", "crusoe.catalog", "crusoe.rules"},
    "gitops": {"gitops", "crusoe.catalog", "crusoe.rules"},
    "environments": {"environments", "components", "crusoe"},
    # It asks each system as anybody would: the API through the signed client, all else through programs.
    # What is measured of a recovery is the exporter's to say.
    "drill": {"drill", "crusoe.catalog", "crusoe.client", "exporter.figures"},
    # It reads what the actor and jobs write, as they do, and signs as the client does.
    "exporter": {"exporter", "actor", "crusoe.client", "training.codes", "training.progress"},
    "localcloud": {"localcloud", "tools"},
    "training": {"training"},
    "training.vm_types": {"training", "crusoe.catalog"},
    "tools": {"tools"},
    "tests": OURS,
}
# Rules and the catalogue judge any program's resources, so they need nothing but Python and a reader of YAML.
PLAIN = ("crusoe.rules", "crusoe.catalog")
# Neither preview nor up may pay for these; each costs from 50 ms to seconds.
HEAVY = {
    "crusoe.client",
    "crusoe.provider",
    "cryptography",
    "fastapi",
    "drill",
    "exporter",
    "httpx",
    "jinja2",
    "kubernetes",
    "localcloud",
    "playwright",
    "prometheus_client",
    "pulumi_kubernetes.apps.v1.Deployment",
    "pulumi_kubernetes.core.v1.Pod",
    "pulumi_kubernetes.rbac.v1.ClusterRole",
    "rich",
    "tests",
    "tools",
    "uvicorn",
}


def modules(part: str) -> Iterator[tuple[str, Path]]:
    """Every Python module of a part of the project with its dotted name."""
    for path in [ROOT / "__main__.py"] if part == "__main__" else sorted((ROOT / part).rglob("*.py")):
        relative = path.relative_to(ROOT).with_suffix("")
        yield ".".join(relative.parts).removesuffix(".__init__"), path


def statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements at any depth; many times quicker than to walk their expressions too, where no import can be."""
    for node in nodes:
        yield node
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, inner, ()))


def imports(path: Path, module: str) -> Iterator[str]:
    """Dotted names of all that a file imports, wherever in it; `from a import b` counts as `a.b`."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def within(name: str, parts: set[str] | tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def allowed(module: str) -> set[str]:
    fitting = [part for part in ALLOWED if within(module, {part})]
    return ALLOWED[max(fitting, key=len)]


@pytest.mark.parametrize("part", sorted(part for part in OURS if list(modules(part))))
def test_arrows_point_one_way(part: str) -> None:
    wrong = [
        f"{module} imports {name}"
        for module, path in modules(part)
        for name in imports(path, module)
        if name.split(".")[0] in OURS and not within(name, allowed(module))
    ]
    assert wrong == []


@pytest.mark.parametrize("part", PLAIN)
def test_rules_need_nothing_but_python_and_yaml(part: str) -> None:
    foreign = {
        name.split(".")[0]
        for module, path in modules("crusoe")
        if within(module, {part})
        for name in imports(path, module)
        if name.split(".")[0] not in sys.stdlib_module_names
    }
    assert foreign <= {"crusoe", "yaml"}


def test_the_actor_needs_nothing_but_python() -> None:
    # It runs in the cluster from a stock image, as files.
    foreign = {name.split(".")[0] for module, path in modules("actor") for name in imports(path, module)}
    assert foreign - sys.stdlib_module_names == {"actor"}


def test_the_exporter_needs_python_and_one_library() -> None:
    # It runs in the cluster from a stock image, as files that `components.exporter` picks.
    foreign = {name.split(".")[0] for module, path in modules("exporter") for name in imports(path, module)}
    assert foreign - sys.stdlib_module_names == {"exporter", "actor", "crusoe", "training", "prometheus_client"}


def test_of_the_training_job_only_three_modules_need_pytorch_to_be_imported() -> None:
    # Its folder is copied to clusters, where nothing else of this project is.
    foreign = {
        module: {name.split(".")[0] for name in imports(path, module)} - sys.stdlib_module_names - {"training"}
        for module, path in modules("training")
    }
    assert {module: names for module, names in foreign.items() if names} == {
        "training.launch": {"torch"},
        "training.model": {"torch"},
        "training.saving": {"torch"},
        "training.train": {"torch"},
        "training.vm_types": {"crusoe"},
    }
    light = [module for module in foreign if module not in ("training.model", "training.saving", "training.vm_types")]
    code = f"import sys, {', '.join(light)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_test_sees_an_arrow_that_points_the_wrong_way(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "def f(x):\n"
        "    try:\n        from crusoe import provider\n"
        "    except OSError:\n        import tests.harness\n"
        "    else:\n        import tools.lock\n"
        "    match x:\n        case 1:\n            import localcloud.cli\n"
        "    if x: pass\n    elif x: import training.job\n"
    )
    found = set(imports(wrong, "components.wrong"))
    assert found == {"crusoe.provider", "tests.harness", "tools.lock", "localcloud.cli", "training.job"}
    assert not any(within(name, allowed("components.wrong")) for name in found)


def test_the_program_loads_nothing_heavy() -> None:
    program = "import sys, components.configuration, components.platform; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {name for name in loaded.stdout.split() if within(name, HEAVY)} == set()


def test_what_a_folder_shares_ends_with_the_folder() -> None:
    """Without an `__init__.py` pytest takes the run for the package, and what is shared stays up until its end."""
    sharing = [path for path in (ROOT / "tests").rglob("conftest.py") if 'scope="package"' in path.read_text()]
    assert sharing
    assert [str(path) for path in sharing if not path.with_name("__init__.py").exists()] == []
