"""A signed client for Crusoe Cloud's REST API.

Importing it costs no HTTP library: httpx and tenacity are loaded by the first call.
"""

from crusoe.client.client import Client
from crusoe.client.connect import connect
from crusoe.client.credentials import Credentials
from crusoe.client.errors import (
    ApiError,
    BadRequest,
    Cancelled,
    CapacityError,
    ConfigurationError,
    Conflict,
    CrusoeError,
    Forbidden,
    MalformedAnswer,
    NeverSent,
    NotFound,
    OperationExpired,
    OperationFailed,
    OperationTimeout,
    QuotaError,
    RateLimited,
    ServerError,
    TransportError,
    Unauthorized,
)
from crusoe.client.operations import Operation
from crusoe.client.projects import Project
from crusoe.client.secret import Secret

__all__ = [
    "ApiError",
    "BadRequest",
    "Cancelled",
    "CapacityError",
    "Client",
    "ConfigurationError",
    "Conflict",
    "Credentials",
    "CrusoeError",
    "Forbidden",
    "MalformedAnswer",
    "NeverSent",
    "NotFound",
    "Operation",
    "OperationExpired",
    "OperationFailed",
    "OperationTimeout",
    "Project",
    "QuotaError",
    "RateLimited",
    "Secret",
    "ServerError",
    "TransportError",
    "Unauthorized",
    "connect",
]
