"""JSON Schemas in the two forms that models get: strict for servers that force a form, and as text in the prompt."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

_NOT_STRICT = {"default", "title", "discriminator", "minLength", "maxLength", "pattern", "format"}
"""Keywords that servers in strict mode refuse, or that only a local check can hold."""


def strict_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """The schema with every property required and nothing else allowed, as strict servers want it."""
    tightened: dict[str, Any] = _strict(shape.model_json_schema())
    return tightened


def schema_text(shape: type[BaseModel]) -> str:
    """What is added to a question when the server does not force the form."""
    schema = json.dumps(shape.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
    return f"Answer with one JSON object and nothing else. It fits this JSON Schema:\n{schema}"


def holds(text: str, schema: dict[str, Any]) -> bool:
    """Whether a JSON text fits the schema."""
    import jsonschema

    return bool(jsonschema.Draft202012Validator(schema).is_valid(json.loads(text)))


def _strict(value: Any, *, names: bool = False) -> Any:
    """`names`: the keys of this object are names chosen by us, not keywords."""
    if isinstance(value, list):
        return [_strict(item) for item in value]
    if not isinstance(value, dict):
        return value
    if names:
        return {key: _strict(item) for key, item in value.items()}
    made = {
        ("anyOf" if key == "oneOf" else key): item
        if key in ("enum", "const", "required")
        else _strict(item, names=key in ("properties", "$defs"))
        for key, item in value.items()
        if key not in _NOT_STRICT
    }
    if "properties" in made:
        made["required"] = list(made["properties"])
        made["additionalProperties"] = False
    return made
