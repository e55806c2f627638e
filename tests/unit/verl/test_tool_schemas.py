"""What verl's pydantic classes keep of a tool's schema."""

from __future__ import annotations

import json

from migrate_tools.verl.tool_schemas import shown_schema

GIVEN = {
    "type": "function",
    "function": {
        "parameters": {
            "type": "object",
            "required": ["box"],
            "properties": {
                "box": {"description": "four numbers", "type": "array", "items": {"type": "number"}, "minItems": 4},
                "mode": {"type": "string", "enum": ["a", "b"]},
            },
        },
        "name": "crop",
        "description": "Crops.",
    },
}


def test_an_agent_loop_shows_what_is_set() -> None:
    assert json.dumps(shown_schema(GIVEN, whole=False)) == (
        '{"type": "function", "function": {"name": "crop", "description": "Crops.", "parameters": {"type": "object", '
        '"properties": {"box": {"type": "array", "description": "four numbers"}, '
        '"mode": {"type": "string", "enum": ["a", "b"]}}, "required": ["box"]}}}'
    )


def test_the_engine_shows_every_field() -> None:
    assert json.dumps(shown_schema(GIVEN, whole=True)) == (
        '{"type": "function", "function": {"name": "crop", "description": "Crops.", "parameters": {"type": "object", '
        '"properties": {"box": {"type": "array", "description": "four numbers", "enum": null}, '
        '"mode": {"type": "string", "description": null, "enum": ["a", "b"]}}, "required": ["box"]}, "strict": false}}'
    )


def test_a_tool_without_parameters() -> None:
    given = {"type": "function", "function": {"name": "stop", "description": "", "strict": True}}
    assert shown_schema(given, whole=False) == given
    assert shown_schema(given, whole=True)["function"]["parameters"] == {
        "type": "object",
        "properties": {},
        "required": [],
    }
