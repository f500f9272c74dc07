"""The report as JSON, and back. Its schema is docs/preview-report.schema.json."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from gitops.model import FORMAT, Report


class OtherVersionError(ValueError):
    """The JSON is no report that this version can read."""


def dump(report: Report) -> str:
    """Return the report as JSON."""
    return report.model_dump_json(by_alias=True, indent=2) + "\n"


def load(text: str) -> Report:
    """Return the report that a JSON text holds.

    Raises:
        OtherVersionError: it is of another format, or no report at all.
    """
    try:
        content: object = json.loads(text)
    except ValueError as error:
        raise OtherVersionError(f"this is no JSON, so no report: {error}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise OtherVersionError("this JSON is no preview report: it has no `format`")
    if content["format"] != FORMAT:
        raise OtherVersionError(
            f"the report has format {content['format']!r} and this program reads {FORMAT}; make the report "
            "and read it with the same commit of this project"
        )
    try:
        return Report.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise OtherVersionError(
            f"the report says format {FORMAT}, but `{place}` does not fit it: {first['msg']}"
        ) from None


def schema() -> dict[str, Any]:
    """Return the JSON schema of the format."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Preview report, format {FORMAT}",
        **Report.model_json_schema(by_alias=True, mode="serialization"),
    }
