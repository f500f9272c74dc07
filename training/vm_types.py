"""`python -m training.vm_types`: write `vm_types.json`, what `nccl` needs of this project's catalogue."""

from __future__ import annotations

import json

from crusoe.catalog import vm_types
from training.nccl import TABLE


def text() -> str:
    """The text of the file: the facts of each family of VM types with GPUs, by the family's name."""
    facts = {
        each.family: {
            "vendor": each.gpu_vendor,
            "gres": each.gres,
            "gpus_per_host": each.gpus_per_host,
            "fabric": each.fabric,
            "hcas": list(each.hcas),
        }
        for each in vm_types().values()
        if each.gpus
    }
    return json.dumps(facts, indent=1) + "\n"


if __name__ == "__main__":
    TABLE.write_text(text(), encoding="utf-8")
