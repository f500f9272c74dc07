"""Runs one Pulumi program under its own interpreter: `python -u program.py ENGINE_ADDRESS`, a RunRequest on stdin.

Ends with 0 when the program went through, with 32 when it failed and its user has been told why, with the program's own
exit status when it called `sys.exit`.
"""

import asyncio
import logging
import runpy
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SHOWN = 32
"""Says to the host that the user has already been told what went wrong."""


def _told(error: Exception, program: Path) -> str:
    """Return the traceback of a program from its own first frame on: what is above it is no business of the user."""
    entry = str(program / "__main__.py" if program.is_dir() else program)
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != entry:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames or error.__traceback__))


def main(engine: str) -> int:
    """Run the program of the request on standard input; return the exit status."""
    try:
        import pulumi
        from pulumi import runtime
        from pulumi.runtime.proto import language_pb2
    except ImportError:
        traceback.print_exc()
        print(f"The Pulumi SDK is not installed in {sys.prefix}. Run `make up`, or install it there.", file=sys.stderr)
        return SHOWN
    request = language_pb2.RunRequest.FromString(sys.stdin.buffer.read())
    program = (Path(request.info.program_directory) / request.info.entry_point).resolve()
    runtime.set_all_config(dict(request.config), list(request.configSecretKeys))
    runtime.configure(
        runtime.Settings(
            monitor=request.monitor_address,
            engine=engine,
            project=request.project,
            stack=request.stack,
            parallel=request.parallel,
            dry_run=request.dryRun,
            organization=request.organization or "organization",
            root_directory=request.info.root_directory,
        )
    )
    sys.argv = [str(program), *request.args]
    sys.path[0] = str(program if program.is_dir() else program.parent)
    # asyncio complains of futures that nobody awaited; a program that fails leaves many, and none is the user's fault.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)

    def run() -> None:
        runpy.run_path(str(program), run_name="__main__")

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    with ThreadPoolExecutor(max_workers=max(request.parallel, 1) * 4) as executor:
        loop.set_default_executor(executor)
        try:
            loop.run_until_complete(runtime.run_in_stack(run))
        except pulumi.RunError as error:
            pulumi.log.error(str(error))
            return SHOWN
        except Exception as error:
            pulumi.log.error(f"The program failed:\n{_told(error, program)}")
            return SHOWN
        finally:
            loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
