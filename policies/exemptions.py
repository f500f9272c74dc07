"""What the configuration leaves alone, told on every run, so that no exemption is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crusoe.rules.finding import Finding
from policies import kinds
from policies.policy import Policy, Resource, example
from policies.settings import Exemption, Settings

_DISK = {
    "type": kinds.DISK,
    "name": "home",
    "properties": {"size": "10TiB"},
    "protect": True,
    "deleteBeforeReplace": True,
}
_NOTHING = example("No exemption.", _DISK)
_ONE = example("An exemption; see the configuration above.", _DISK)

LIVE = Policy(
    name="exemption-live",
    level="advisory",
    refuses="Exemptions that count today.",
    why="Somebody accepted this for a time.",
    fix="Mend the resource before the day, then take the exemption out.",
    good=_NOTHING,
    bad=_ONE,
)
DEAD = Policy(
    name="exemption-dead",
    level="advisory",
    refuses="Every exemption names a resource of the stack, and has not ended.",
    why="One that means nothing today may mean something that nobody looked at tomorrow.",
    fix="Take it out of the configuration.",
    good=_NOTHING,
    bad=_ONE,
)

POLICIES = [LIVE, DEAD]


def findings(policy: Policy, settings: Settings, resources: Sequence[Resource]) -> Iterator[tuple[Resource, Finding]]:
    """Yield the exemptions that a policy of this module tells of, each with the resource or the stack."""
    root = next((each for each in resources if each.type == "pulumi:pulumi:Stack"), None) or _nobody()
    for name, exemptions in settings.exemptions.items():
        for each in exemptions:
            resource = next((one for one in resources if each.names(one)), None)
            live = each.is_live(settings.today) and resource is not None
            if live and policy is LIVE:
                yield resource or root, _finding(name, each, f"left alone until {each.expires}: {each.reason}")
            elif not live and policy is DEAD:
                gone = f"ended on {each.expires}" if resource else "there is no such resource in this stack"
                yield resource or root, _finding(name, each, gone)


def _finding(policy: str, exemption: Exemption, what: str) -> Finding:
    return Finding(f"{policy} on {exemption.resource}", what, "Take it out of the pack's configuration when it is over")


def _nobody() -> Resource:
    return Resource(type="", name="", urn="", inputs={})
