"""The LanguageRuntime service of pulumi/language.proto, as far as a Python program, plugin or policy pack needs it.

Programs, provider plugins and policy packs each run in a process of their own, under the interpreter that
`runtime.options.virtualenv` names in Pulumi.yaml, PulumiPlugin.yaml or PulumiPolicy.yaml, relative to that file, as
with the official host.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import grpc
from children import GRACE_SECONDS, Children, output_of
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

SHOWN = 32
"""The exit status of a program that has already told its user what went wrong."""

_MESSAGE_BYTES = 400 << 20
_PROGRAM = Path(__file__).with_name("program.py")
_POLICY = Path(__file__).with_name("policy.py")

# A plugin holds one thread for as long as it runs.
_THREADS = 64

# A signal that the system gives to another thread does not wake the main one, which has to run the handler.
_WAKE_SECONDS = 0.25

_ABOUT = "import sys, json; print(json.dumps([[sys.executable, sys.version.split()[0]]]))"
_DEPENDENCIES = """
import json, re
from importlib.metadata import distributions
found = {{d.metadata["Name"]: d for d in distributions()}}
def plain(name): return re.sub(r"[-_.]+", "-", name).lower()
below = {{plain(re.split(r"[^A-Za-z0-9._-]", r, maxsplit=1)[0]) for d in found.values() for r in d.requires or []}}
print(json.dumps([[n, d.version] for n, d in sorted(found.items()) if {every} or plain(n) not in below]))
"""


def interpreter(info: language_pb2.ProgramInfo) -> Path:
    """Return the interpreter a program asks for. Raises FileNotFoundError, which names the missing environment."""
    options = info.options.fields
    virtualenv = options["virtualenv"].string_value if "virtualenv" in options else ""
    folder = Path(info.root_directory) / virtualenv if virtualenv else Path(sys.prefix)
    python = folder / "bin" / "python"
    if not os.access(python, os.X_OK):
        raise FileNotFoundError(
            f"There is no Python environment at {folder}, which {info.root_directory} asks for. "
            "`make up` makes this project's; for another, run `python3 -m venv` there and install its dependencies."
        )
    return python


def activated(environ: dict[str, str], python: Path) -> dict[str, str]:
    """Return the environment that the virtual environment of an interpreter would have after its `activate`."""
    folder = python.parent
    kept = {key: value for key, value in environ.items() if key != "PYTHONHOME"}
    path = os.pathsep.join(filter(None, (str(folder), environ.get("PATH", ""))))
    return {**kept, "PATH": path, "VIRTUAL_ENV": str(folder.parent)}


def plugin_command(python: Path, request: language_pb2.RunPluginRequest) -> list[str]:
    """Return the command of a plugin: its folder is run, a policy pack's by a runner that leaves the SDK for later."""
    folder = request.info.program_directory
    if request.kind == "analyzer":
        return [str(python), "-u", str(_POLICY), *request.args, folder]
    return [str(python), "-u", folder, *request.args]


class Host(language_pb2_grpc.LanguageRuntimeServicer):
    """Serves one engine."""

    def __init__(self, engine: str, children: Children) -> None:
        self._engine = engine
        self._children = children

    def _interpreter(self, info: language_pb2.ProgramInfo, context: grpc.ServicerContext) -> Path:
        try:
            return interpreter(info)
        except FileNotFoundError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise

    def Handshake(
        self, request: language_pb2.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> language_pb2.LanguageHandshakeResponse:
        """Accept the engine."""
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """Name no version: this host belongs to no release of Pulumi."""
        return plugin_pb2.PluginInfo()

    def GetRequiredPackages(
        self, request: language_pb2.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPackagesResponse:
        """Ask for no plugin in advance: each is found when a resource needs it, and here nothing can be downloaded."""
        return language_pb2.GetRequiredPackagesResponse()

    def RuntimeOptionsPrompts(
        self, request: language_pb2.RuntimeOptionsRequest, context: grpc.ServicerContext
    ) -> language_pb2.RuntimeOptionsResponse:
        """Ask nothing when a project is made."""
        return language_pb2.RuntimeOptionsResponse()

    def InstallDependencies(
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """Install nothing, and say so: the lock file rules what this project's environment holds."""
        yield language_pb2.InstallDependenciesResponse(
            stdout=b"Nothing to install: `make up` keeps the environment as the lock file says.\n"
        )

    def About(self, request: language_pb2.AboutRequest, context: grpc.ServicerContext) -> language_pb2.AboutResponse:
        """Name the interpreter that the program runs under."""
        [(executable, version)] = self._ask(self._interpreter(request.info, context), _ABOUT)
        return language_pb2.AboutResponse(executable=executable, version=version)

    def GetProgramDependencies(
        self, request: language_pb2.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetProgramDependenciesResponse:
        """List what is installed beside the program; without the transitive ones, what nothing else requires."""
        code = _DEPENDENCIES.format(every=request.transitiveDependencies)
        found = self._ask(self._interpreter(request.info, context), code)
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[language_pb2.DependencyInfo(name=name, version=version) for name, version in found]
        )

    @staticmethod
    def _ask(python: Path, code: str) -> list[tuple[str, str]]:
        command = [str(python), "-I", "-c", code]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=30).stdout)

    def Run(self, request: language_pb2.RunRequest, context: grpc.ServicerContext) -> language_pb2.RunResponse:
        """Run a program to its end. What it prints goes to the host's own output, which the engine shows."""
        python = self._interpreter(request.info, context)
        environ = activated(dict(os.environ), python)
        command = [str(python), "-u", str(_PROGRAM), self._engine]
        child = self._children.start(command, Path(request.pwd), environ, stdin=subprocess.PIPE, piped=False)
        context.add_callback(lambda: self._children.end(child))
        # Over a pipe and not the command line or the environment: the configuration holds secrets.
        if child.stdin is not None:
            with child.stdin as pipe:
                pipe.write(request.SerializeToString())
        status = self._children.wait(child)
        if status == SHOWN:
            return language_pb2.RunResponse(bail=True)
        error = f"The program ended with exit status {status}." if status else ""
        return language_pb2.RunResponse(error=error)

    def RunPlugin(
        self, request: language_pb2.RunPluginRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.RunPluginResponse]:
        """Run a plugin, forward what it writes, and end with its exit status. It ends when the engine hangs up."""
        python = self._interpreter(request.info, context)
        environ = activated(dict(entry.split("=", 1) for entry in request.env if "=" in entry), python)
        command = plugin_command(python, request)
        child = self._children.start(command, Path(request.pwd), environ, stdin=subprocess.DEVNULL, piped=True)
        context.add_callback(lambda: self._children.end(child))
        for stream, chunk in output_of(child):
            if stream == "stdout":
                yield language_pb2.RunPluginResponse(stdout=chunk)
            else:
                yield language_pb2.RunPluginResponse(stderr=chunk)
        yield language_pb2.RunPluginResponse(exitcode=self._children.wait(child))

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """End what runs."""
        self._children.close()
        return empty_pb2.Empty()


def serve(engine: str) -> int:
    """Serve an engine until it says so or is gone, then end every child; return the exit status."""
    children = Children()
    server = grpc.server(
        ThreadPoolExecutor(max_workers=_THREADS),
        options=[("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.max_send_message_length", _MESSAGE_BYTES)],
    )
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(Host(engine, children), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    done = threading.Event()

    # A handler may run while the main thread holds the event's lock, so it only takes a note.
    signals: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    def watch() -> None:
        # The engine holds the other end: it closes even when the engine is killed.
        while os.read(sys.stdin.fileno(), 1 << 10):
            pass
        done.set()

    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, end)
    threading.Thread(target=watch, daemon=True).start()
    print(port, flush=True)
    while not signals and not done.wait(_WAKE_SECONDS):
        pass
    children.close()
    server.stop(grace=GRACE_SECONDS).wait(2 * GRACE_SECONDS)
    return 0
