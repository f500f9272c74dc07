"""Which stacks other than `dev` have their state in this clone's `.local`, where `make clean` would remove it.

Nothing but the standard library: `make clean` asks also where there is no virtual environment (any more), as
`python3 -m tools.front_door.foreign`.
"""

import sys
from pathlib import Path

from tools.places import LOCAL


def stacks(local: Path = LOCAL) -> dict[str, Path]:
    """Return the state files of those stacks by name, for every file backend directly in the folder or one below."""
    if not local.is_dir():
        return {}
    roots = [local, *(folder for folder in sorted(local.iterdir()) if folder.is_dir())]
    # `PROJECT/STACK.json`, compressed when the user wants it so; without a project as Pulumi before 3.61 wrote it.
    found = [
        path for root in roots for pattern in ("*.json", "*.json.gz", "*/*.json", "*/*.json.gz")
        for path in sorted((root / ".pulumi" / "stacks").glob(pattern))
    ]  # fmt: skip
    named = {path.name.removesuffix(".gz").removesuffix(".json"): path for path in found}
    return {name: path for name, path in named.items() if name != "dev"}


def refusal(local: Path = LOCAL) -> str | None:
    """Return why nothing of the folder may be removed, None when it may."""
    found = stacks(local)
    if not found:
        return None
    name, path = next(iter(found.items()))
    backend = next(parent for parent in path.parents if parent.name == ".pulumi").parent.as_uri()
    return (
        f"Nothing was removed: .local holds the state of {', '.join(found)}, which is not dev's to throw away. With "
        f"PULUMI_BACKEND_URL={backend}, `pulumi stack export -s {name} --file {name}.json` saves it (then `pulumi "
        "login` to your own backend, `pulumi stack init` and `pulumi stack import` it there), and "
        f"`pulumi stack rm {name} --preserve-config` removes it here, once for each stack."
    )


if __name__ == "__main__":
    sys.exit(refusal())
