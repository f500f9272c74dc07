"""Pulumi's resource provider service: what comes in is decoded and handed to the kinds, what goes wrong is told.

Every fault leaves as one or two plain sentences in the status, never as a trace. An object that exists but is not what
was asked for is reported with its id and state, so that the engine records it.
"""
# The methods' names are the service's own.
# ruff: noqa: N802

from __future__ import annotations

import json
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct

from crusoe.client import Cancelled, ConfigurationError, CrusoeError
from crusoe.provider import configuration
from crusoe.provider.engine import Engine
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.kind import Kind
from crusoe.provider.properties import Difference
from crusoe.provider.protocol import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2
from crusoe.provider.registry import KINDS, LOOKUPS
from crusoe.provider.run import Run, told_of
from crusoe.provider.session import Configuration, Connect, Session, connect_from_environment
from crusoe.provider.shapes import Change, Failure, did_you_mean
from crusoe.provider.values import UnsupportedValueError, Values, decode, encode

VERSION: Final = "0.1.0"

T = TypeVar("T")

_IN_PLACE: Final = {
    Change.ADD: provider_pb2.PropertyDiff.ADD,
    Change.DELETE: provider_pb2.PropertyDiff.DELETE,
    Change.UPDATE: provider_pb2.PropertyDiff.UPDATE,
}
_REPLACING: Final = {
    Change.ADD: provider_pb2.PropertyDiff.ADD_REPLACE,
    Change.DELETE: provider_pb2.PropertyDiff.DELETE_REPLACE,
    Change.UPDATE: provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


DRIFT_CHECK = "CRUSOE_PROVIDER_DRIFT_CHECK"
"""A variable that, set to `true`, has previews tell what an update would refuse as a warning beside the difference.

A person may have changed by hand what no update would: a check for that has to name it, and not to stop at it.
"""


class Service(provider_pb2_grpc.ResourceProviderServicer):
    """One provider; `connect` stands in for the network in tests."""

    def __init__(
        self,
        engine_address: str | None = None,
        connect: Connect = connect_from_environment,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.engine = Engine(engine_address)
        self.session = Session(connect=connect)
        self._asked: set[str] = set()
        self._replaced: set[str] = set()
        self._checks_drift = environ.get(DRIFT_CHECK) == "true"

    # The plugin

    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ProviderHandshakeResponse:
        """Say what this provider understands: secrets, but neither resource references nor output values."""
        del context
        self.engine = Engine(request.engine_address or self.engine.address)
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext) -> Empty:
        """Take the address of an engine that found this provider running."""
        del context
        self.engine = Engine(request.address)
        return Empty()

    def GetPluginInfo(self, request: Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """Tell the version."""
        del request, context
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        """Return the schema."""
        from crusoe.provider.schema import schema

        del request, context
        return provider_pb2.GetSchemaResponse(schema=json.dumps(schema(VERSION, KINDS, LOOKUPS)))

    def Cancel(self, request: Empty, context: grpc.ServicerContext) -> Empty:
        """End every wait; calls that are under way answer with what they have reached."""
        del request, context
        self.session.cancel.set()
        return Empty()

    # The provider's own configuration

    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Check endpoint and project."""

        def call() -> provider_pb2.CheckResponse:
            news = decode(request.news)
            inputs, faults = configuration.check(news.values)
            return provider_pb2.CheckResponse(inputs=encode(inputs, news.secret), failures=_failures(faults))

        return self._answer(context, call)

    def DiffConfig(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        """Compare endpoint and project: a stack stays with its cloud."""

        def call() -> provider_pb2.DiffResponse:
            olds, news = decode(request.old_inputs or request.olds).values, decode(request.news).values
            refused = configuration.refusal(olds, news)
            if refused:
                raise RefusalError(refused)
            return _diff_response(
                [
                    Difference(name, name, change, replaces, of_inputs=True)
                    for name, change, replaces in configuration.differences(olds, news)
                ],
                delete_before_replace=False,
            )

        return self._answer(context, call)

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        """Take endpoint and project. Whether they work shows at the first need, which is prepared for meanwhile."""

        def call() -> provider_pb2.ConfigureResponse:
            values = decode(request.args).values
            endpoint = configuration.text(values.get("endpoint")) or configuration.DEFAULT_ENDPOINT
            project = configuration.text(values.get("project"))
            if project is None:
                raise RefusalError("The crusoe provider has no project: set it to the project's name or id.")
            self.session.configuration = Configuration(endpoint, project)
            threading.Thread(target=self._prepare, daemon=True).start()
            return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

        return self._answer(context, call)

    def _prepare(self) -> None:
        try:
            self._connected()
        except CrusoeError:
            # Told to whoever needs the connection first.
            return

    # Resources

    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        """Check a resource's inputs, all faults at once."""

        def call() -> provider_pb2.CheckResponse:
            kind, session = _kind(request.type, request.urn), self._connected()
            self._asked.add(request.urn)
            olds, news = decode(request.olds), decode(request.news)
            faults = kind.check(session, olds.values, news.values)
            inputs = encode(news.values, news.secret | kind.secrets)
            return provider_pb2.CheckResponse(inputs=inputs, failures=_failures(faults))

        return self._answer(context, call)

    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        """Tell exactly what would change in place and what would replace.

        Only a program can be refused its wish: a refresh, which asks for the difference between what was recorded and
        what was found, comes without a check before it.
        """

        def call() -> provider_pb2.DiffResponse:
            kind, session = _kind(request.type, request.urn), self._connected()
            olds, state, news = (decode(each).values for each in (request.old_inputs, request.olds, request.news))
            asked = request.urn in self._asked
            kind.stands_for(session, request.id, request.urn)
            changes = _changes(kind, olds, state, news) if asked else kind.differences(olds, state, news)
            replaces = any(change.replaces for change in changes)
            if replaces:
                self._replaced.add(request.urn)
                if asked and (lost := kind.lost_by_replacing(state)):
                    self.engine.warn(request.urn, lost)
            elif asked and (refused := kind.refusal(state, news, changes)):
                if not self._checks_drift:
                    raise RefusalError(refused)
                self.engine.warn(request.urn, refused)
            return _diff_response(changes, delete_before_replace=replaces and kind.delete_before_replace)

        return self._answer(context, call)

    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        """Make a resource; in a preview, say what is known of it."""
        task = partial(_task, "creating", request.type, request.urn, request.properties)

        def call() -> provider_pb2.CreateResponse:
            kind = _kind(request.type, request.urn)
            bag = decode(request.properties)
            secret = bag.secret | kind.secrets
            run = self._run(request.urn, kind.seconds["create"], request.timeout, task())
            if request.preview:
                if request.urn not in self._replaced:
                    kind.preflight(run, {}, bag.values)
                return provider_pb2.CreateResponse(properties=encode(kind.planned(bag.values), secret))
            object_id, state = kind.create(run, bag.values)
            return provider_pb2.CreateResponse(id=object_id, properties=encode(state, secret))

        return self._answer(
            context,
            call,
            lambda: _secret(request.type, request.urn, request.properties),
            task,
        )

    def Read(self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext) -> provider_pb2.ReadResponse:
        """Read a resource for a refresh or an import; an empty answer says that it is gone."""
        task = partial(_task, "reading", request.type, request.urn, request.properties)

        def call() -> provider_pb2.ReadResponse:
            kind = _kind(request.type, request.urn)
            self._asked.discard(request.urn)
            inputs, state = decode(request.inputs), decode(request.properties)
            secret = inputs.secret | state.secret | kind.secrets
            run = self._run(request.urn, kind.seconds["read"], request.timeout, task())
            found = kind.read(run, request.id, inputs.values, state.values)
            if found is None:
                return provider_pb2.ReadResponse()
            return provider_pb2.ReadResponse(
                id=found.object_id, properties=encode(found.state, secret), inputs=encode(found.inputs, secret)
            )

        return self._answer(context, call, task=task)

    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        """Change a resource in place, and finish what an earlier run left unfinished."""
        task = partial(_task, "updating", request.type, request.urn, request.news)

        def call() -> provider_pb2.UpdateResponse:
            kind = _kind(request.type, request.urn)
            news = decode(request.news)
            olds, state = decode(request.old_inputs).values, decode(request.olds).values
            secret = news.secret | kind.secrets
            run = self._run(request.urn, kind.seconds["update"], request.timeout, task())
            changes = _changes(kind, olds, state, news.values)
            if self._checks_drift and not request.preview:
                raise RefusalError(f"{DRIFT_CHECK} is set, which is for previews only: unset it, and run this again.")
            if request.preview:
                kind.preflight(run, state, news.values)
                after = kind.planned_update(state, news.values, changes)
            else:
                after = kind.update(run, request.id, state, news.values, changes)
            return provider_pb2.UpdateResponse(properties=encode(after, secret))

        return self._answer(
            context,
            call,
            lambda: _secret(request.type, request.urn, request.news),
            task,
        )

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> Empty:
        """Delete a resource with everything that it brought."""
        task = partial(_task, "deleting", request.type, request.urn, request.properties)

        def call() -> Empty:
            kind = _kind(request.type, request.urn)
            run = self._run(request.urn, kind.seconds["delete"], request.timeout, task())
            kind.delete(run, request.id, decode(request.properties).values)
            return Empty()

        return self._answer(context, call, task=task)

    def Invoke(self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext) -> provider_pb2.InvokeResponse:
        """Look something up."""

        def call() -> provider_pb2.InvokeResponse:
            lookup = LOOKUPS.get(request.tok)
            if lookup is None:
                raise RefusalError(
                    f"The crusoe provider has no function {request.tok}.{did_you_mean(request.tok, LOOKUPS)}"
                )
            arguments = decode(request.args).values
            faults = lookup.check(arguments)
            if faults:
                return provider_pb2.InvokeResponse(failures=_failures(faults))
            response = provider_pb2.InvokeResponse()
            # The field's name is a keyword of Python.
            getattr(response, "return").CopyFrom(encode(lookup.call(self._connected().client, arguments)))
            return response

        return self._answer(context, call)

    # Common

    def _connected(self) -> Session:
        """Return the session once endpoint, key and project are known to work."""
        _ = self.session.client
        return self.session

    def _run(self, urn: str, seconds: float, timeout: float, task: str) -> Run:
        name = urn.rpartition("::")[2]
        return Run(self._connected(), self.engine, urn, name, timeout if timeout > 0 else seconds, task)

    def _answer(
        self,
        context: grpc.ServicerContext,
        call: Callable[[], T],
        secret: Callable[[], Iterable[str]] = tuple,
        task: Callable[[], str] = str,
    ) -> T:
        """Return what `call` returns; end the RPC with a status for whatever it raises.

        `secret` names what to mark in the state of an error; `task` tells what an error of the API ended.
        """
        try:
            return call()
        except PartlyDoneError as error:
            code, message = grpc.StatusCode.FAILED_PRECONDITION, " ".join(error.reasons)
            details = provider_pb2.ErrorResourceInitFailed(
                id=error.object_id, properties=encode(error.state, secret()), reasons=error.reasons
            )
            status = status_pb2.Status(code=code.value[0], message=message)
            status.details.add().Pack(details)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        except Cancelled as error:
            code, message = grpc.StatusCode.CANCELLED, str(error)
        except CrusoeError as error:
            # What is wrong with the connection is wrong for everything.
            ended = "" if isinstance(error, ConfigurationError) else task()
            code, message = grpc.StatusCode.FAILED_PRECONDITION, told_of(ended, error)
        except (RefusalError, UnsupportedValueError) as error:
            code, message = grpc.StatusCode.FAILED_PRECONDITION, str(error)
        except Exception as error:  # noqa: BLE001 - a fault of this plugin must reach the user as a sentence too
            self.engine.debug(_trace(error))
            code = grpc.StatusCode.INTERNAL
            message = (
                f"The crusoe provider has a fault ({type(error).__name__}); run the command again with"
                " `--debug --logtostderr` and report what it says."
            )
        context.abort(code, message)


def _trace(error: BaseException | None) -> str:
    """Where a fault came from: lines and types, without the errors' own texts, which may hold what a request held."""
    parts: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        parts += [*traceback.format_tb(error.__traceback__), f"{type(error).__name__}\n"]
        error = error.__cause__ or error.__context__
    return "".join(parts)


def _kind(token: str, urn: str) -> Kind:
    """Return the kind of a token; older engines tell it in the URN only."""
    token = token or urn.rsplit("::", 2)[1].rpartition("$")[2]
    kind = KINDS.get(token)
    if kind is None:
        raise RefusalError(f"The crusoe provider has no resource {token}.{did_you_mean(token, KINDS)}")
    return kind


def _changes(kind: Kind, olds: Values, state: Values, news: Values) -> list[Difference]:
    """Return what an `up` has to do: the differences, and upkeep."""
    changes = kind.differences(olds, state, news)
    seen = {change.property for change in changes}
    return changes + [change for change in kind.upkeep(state) if change.property not in seen]


def _secret(token: str, urn: str, properties: Struct) -> frozenset[str]:
    """Return the names of the properties to mark in a state that an error reports."""
    return decode(properties).secret | _kind(token, urn).secrets


def _task(doing: str, token: str, urn: str, properties: Struct) -> str:
    """Return what is being done to what, by the name that the object has in the cloud: `creating node pool train`."""
    name = decode(properties).values.get("name")
    return f"{doing} {_kind(token, urn).title} {name if isinstance(name, str) else urn.rpartition('::')[2]}"


def _failures(faults: Sequence[Failure]) -> list[provider_pb2.CheckFailure]:
    return [provider_pb2.CheckFailure(property=fault.path, reason=fault.reason) for fault in faults]


def _diff_response(changes: Sequence[Difference], *, delete_before_replace: bool) -> provider_pb2.DiffResponse:
    kinds = provider_pb2.DiffResponse.DIFF_SOME if changes else provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=kinds,
        diffs=sorted({change.property for change in changes}),
        replaces=sorted({change.property for change in changes if change.replaces}),
        detailedDiff={
            change.path: provider_pb2.PropertyDiff(
                kind=(_REPLACING if change.replaces else _IN_PLACE)[change.change], inputDiff=change.of_inputs
            )
            for change in changes
        },
        hasDetailedDiff=True,
        deleteBeforeReplace=delete_before_replace,
    )
