"""`python -m tools.front_door COMMAND [--stack STACK] [-- ARGUMENT ...]`, as the Makefile runs it."""

import argparse
import sys
from collections.abc import Sequence

from tools.errors import ToolError
from tools.front_door.commands import COMMANDS
from tools.front_door.environment import DEV
from tools.front_door.process import INTERRUPTED
from tools.front_door.session import Session


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...]]:
    """Return what is meant for this program, and what comes after `--`: that is handed on as it stands."""
    if "--" not in arguments:
        return arguments, ()
    at = list(arguments).index("--")
    return arguments[:at], tuple(arguments[at + 1 :])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.front_door")
    parser.add_argument("command", choices=sorted(COMMANDS))
    parser.add_argument("--stack", default=DEV)
    parser.add_argument("--tier", default="")
    own, passed_on = _split(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(own)
    command = COMMANDS[options.command]
    session = Session(options.stack, passed_on, options.tier)
    session.say(command.does(session))
    said = ""
    try:
        status = command.run(session)
    except ToolError as error:
        session.say(str(error))
        status, said = 1, command.after_refusal
    except KeyboardInterrupt:
        status, said = INTERRUPTED, command.after_interrupt
    else:
        if status == INTERRUPTED:
            said = command.after_interrupt
        elif status and command.after_failure:
            said = command.after_failure(session)
    if said:
        session.say(said)
    return status


if __name__ == "__main__":
    sys.exit(main())
