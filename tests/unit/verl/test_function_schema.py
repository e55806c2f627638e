"""The schema of a function tool, as transformers and verl make it of type hints and a docstring."""

from __future__ import annotations

import ast
from textwrap import dedent
from typing import Any

import pytest
from migrate_tools.verl.function_schema import NoSchema, function_schema


def schema(text: str, name: str = "tool") -> dict[str, Any]:
    node = ast.parse(dedent(text)).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return function_schema(node, name)


def test_a_whole_function() -> None:
    made = schema(
        '''
        @function_tool("look_up")
        async def search(query: str, *, top: int = 3, unit: str = "c") -> list[str]:
            """Searches the web.

            It takes a while.

            Args:
                query: what to look for,
                    in full sentences
                top: how many

                unit: of the answer (choices: ["c", "f"])

            Returns:
                found: the pages
            """
        ''',
        "look_up",
    )
    assert made == {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Searches the web.\n\nIt takes a while.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "what to look for, in full sentences"},
                    "top": {"type": "integer", "description": "how many"},
                    "unit": {"type": "string", "description": "of the answer", "enum": ["c", "f"]},
                },
                "required": ["query"],
            },
        },
    }


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        ("float", "number"),
        ("bool", "boolean"),
        ("list[str]", "array"),
        ("typing.List[int]", "array"),
        ("tuple[int, int]", "array"),
        ("dict", "object"),
        ("list", "object"),
        ("dict[str, int]", "object"),
        ("Optional[str]", "string"),
        ("int | None", "integer"),
        ("str | int | None", ["integer", "string"]),
        ("Union[float, int]", ["integer", "number"]),
        ("'int'", "integer"),
    ],
)
def test_type_hints(hint: str, kind: str | list[str]) -> None:
    made = schema(f'def tool(x: {hint} = None):\n    """Does.\n\n    Args:\n        x: it\n    """\n')
    parameters = made["function"]["parameters"]
    assert parameters == {"type": "object", "properties": {"x": {"type": kind, "description": "it"}}}


def test_values_of_a_literal_are_choices() -> None:
    made = schema('def tool(x: Literal["a", "b"]):\n    """Does.\n\n    Args:\n        x: it\n    """\n')
    assert made["function"]["parameters"]["properties"]["x"] == {
        "type": "string",
        "description": "it",
        "enum": ["a", "b"],
    }


DOC = '"""Does.\n\n    Args:\n        x: it\n    """'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def tool(): ...", "no docstring"),
        (f"def tool(x):\n    {DOC}", "its parameter x has no type hint"),
        (f"def tool(x: int, y: int):\n    {DOC}", "its parameter y has no description"),
        (f"def tool(*x: int):\n    {DOC}", "any number of arguments"),
        (f"def tool(x: Point):\n    {DOC}", "what verl makes of the type hint Point of x"),
        (f"def tool(x: Any):\n    {DOC}", "the type hint Any of x"),
        (f"def tool(x: Literal[1, 'a']):\n    {DOC}", "of several kinds"),
        (f"@cached\n@function_tool\ndef tool(x: int):\n    {DOC}", "the decorator cached too"),
        ("@function_tool(schema=make())\ndef tool(x): ...", "made when the module is imported"),
    ],
)
def test_what_the_text_does_not_tell(text: str, why: str) -> None:
    with pytest.raises(NoSchema, match=why):
        schema(text)


def test_a_schema_that_is_given() -> None:
    given = {"type": "function", "function": {"name": "x"}}
    assert schema(f"@function_tool(schema={given})\ndef tool(x): ...") == given
