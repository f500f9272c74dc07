"""How errors leave a FastAPI app: always as `{"code", "message", ...}`, never as FastAPI's own shapes."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from localcloud.errors import ApiError, bad_request, internal_error

_LOG = logging.getLogger(__name__)
_NOT_FOUND = 404


def answer(error: ApiError) -> JSONResponse:
    """An error as the API answers it."""
    return JSONResponse(error.body(), error.status, error.headers)


def add_error_handlers(app: FastAPI) -> None:
    """Make every error of an app leave in the API's shape."""

    @app.exception_handler(ApiError)
    async def refused(_request: Request, error: ApiError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        return answer(bad_request("; ".join(_in_words(fault) for fault in error.errors())))

    @app.exception_handler(HTTPException)
    async def unrouted(request: Request, error: HTTPException) -> JSONResponse:
        where = f"{request.method} {request.url.path}"
        if error.status_code == _NOT_FOUND:
            return answer(ApiError(_NOT_FOUND, "not_found", f"there is no {where}"))
        return answer(ApiError(error.status_code, "bad_request", f"{where}: {error.detail}"))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        reply = internal_error("internal error")
        _LOG.error("error %s in %s %s", reply.error_id, request.method, request.url.path, exc_info=error)
        return answer(reply)


def _in_words(fault: Mapping[str, Any]) -> str:
    """One finding of pydantic as `field: what is wrong`."""
    if fault["type"] == "json_invalid":
        return "the body is not valid JSON"
    field = ".".join(str(part) for part in fault["loc"][1:])
    if fault["type"] == "extra_forbidden":
        return f"{field}: unknown field"
    if fault["type"] == "missing":
        return f"{field}: required" if field else "a JSON body is required"
    words = str(fault["msg"]).removeprefix("Value error, ")
    return f"{field}: {words[0].lower()}{words[1:]}" if field else words
