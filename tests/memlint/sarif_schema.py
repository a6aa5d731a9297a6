"""The part of the SARIF 2.1.0 schema that a report of ours touches.

The properties, their types, limits and closedness (``additionalProperties``) are those of the
standard; properties that we never write are left out, which makes it stricter, never laxer.
"""

from __future__ import annotations

from typing import Any


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


def _list(item: dict[str, Any], *, least: int = 0, unique: bool = False) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": least, "uniqueItems": unique}


_text = {"type": "string"}
_place = {"type": "integer", "minimum": 1}
_level = {"enum": ["none", "note", "warning", "error"]}
_message = _closed(["text"], text=_text)
_multiformat = _closed(["text"], text=_text)
_region = _closed([], startLine=_place, startColumn=_place, endLine=_place, endColumn=_place)
_artifact = _closed([], uri={"type": "string", "format": "uri-reference"})
_physical = _closed(["artifactLocation"], artifactLocation=_artifact, region=_region)
_logical = _closed([], name=_text, kind=_text)
_location = _closed([], physicalLocation=_physical, logicalLocations=_list(_logical, unique=True))
_replacement = _closed(
    ["deletedRegion"], deletedRegion=_region, insertedContent=_closed([], text=_text)
)
_change = _closed(
    ["artifactLocation", "replacements"],
    artifactLocation=_artifact,
    replacements=_list(_replacement, least=1),
)
_fix = _closed(
    ["artifactChanges"],
    description=_message,
    artifactChanges=_list(_change, least=1, unique=True),
)
_result = _closed(
    ["message"],
    ruleId=_text,
    ruleIndex={"type": "integer", "minimum": -1},
    level=_level,
    message=_message,
    locations=_list(_location),
    partialFingerprints={"type": "object", "additionalProperties": _text},
    fixes=_list(_fix, unique=True),
)
_rule = _closed(
    ["id"],
    id=_text,
    name=_text,
    shortDescription=_multiformat,
    fullDescription=_multiformat,
    help=_multiformat,
    helpUri={"type": "string", "format": "uri"},
    defaultConfiguration=_closed([], level=_level),
)
_driver = _closed(
    ["name"],
    name=_text,
    version=_text,
    informationUri={"type": "string", "format": "uri"},
    rules=_list(_rule, unique=True),
)
_notification = _closed(["message"], level=_level, message=_message, locations=_list(_location))
_invocation = _closed(
    ["executionSuccessful"],
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications=_list(_notification),
)
_run = _closed(
    ["tool"],
    tool=_closed(["driver"], driver=_driver),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=_list(_result),
    invocations=_list(_invocation),
)

SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    **_closed(
        ["version", "runs"],
        **{
            "$schema": {"type": "string", "format": "uri"},
            "version": {"enum": ["2.1.0"]},
            "runs": _list(_run),
        },
    ),
}
