"""`make autoclusters`: stops all repairs of a stack with one command, in a way that the next `up` keeps."""

from tools.front_door.environment import FrontDoorError
from tools.front_door.session import Session

PAUSED = "platform.autoClusters.paused"
TARGETS = ("**::platform-autoclusters-config", "**::platform-pools-*")
"""What repairs are set on: the cluster's configuration on CMK v1, the pools on v2. Nothing else is touched."""

_PREFIX = "--action="


def autoclusters(session: Session) -> int:
    """Write the pause into the stack's settings, or take it out, and bring just that to the cloud.

    Raises:
        FrontDoorError: neither `on` nor `off` was asked for.
    """
    actions = [each.removeprefix(_PREFIX) for each in session.arguments if each.startswith(_PREFIX)]
    passed_on = [each for each in session.arguments if not each.startswith(_PREFIX)]
    if actions not in (["off"], ["on"]):
        raise FrontDoorError("Write ACTION=off, which stops all repairs, or ACTION=on, which ends that pause.")
    paused = "true" if actions == ["off"] else "false"
    session.prepare()
    session.pulumi_or_fail("config", "set", "--path", PAUSED, paused, "--type", "bool", "--stack", session.stack)
    targets = [f"--target={each}" for each in TARGETS]
    agreed = ["--yes"] if session.is_dev and not session.is_agreed else []
    status = session.pulumi("up", "--stack", session.stack, "--suppress-outputs", *targets, *agreed, *passed_on)
    if status == 0:
        state = "Repairs are stopped" if paused == "true" else "Repairs are what the settings say"
        session.say(f"{state}. {PAUSED} in Pulumi.{session.stack}.yaml says so too: commit it.")
    return status
