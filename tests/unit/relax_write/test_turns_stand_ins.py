"""The files that stand in for verl's tool classes and for Ray, as a tool sees them."""

from __future__ import annotations

import asyncio
import base64
import io
import threading
from typing import Any

import pytest
from migrate_tools.relax.turns import local_ray as ray
from migrate_tools.relax.turns.base_interaction import BaseInteraction
from migrate_tools.relax.turns.base_tool import BaseTool, OpenAIFunctionToolSchema, ToolResponse
from migrate_tools.relax.turns.media_parts import fetch_image, smart_resize

SCHEMA = {"type": "function", "function": {"name": "count", "parameters": {"properties": {"n": {"type": "integer"}}}}}


def test_a_schema_is_a_dict_with_attributes() -> None:
    schema = OpenAIFunctionToolSchema.model_validate(SCHEMA)
    assert schema.function.name == "count"
    assert schema.function.parameters.properties["n"].type == "integer"
    dumped = schema.model_dump(exclude_unset=True)
    assert (dumped, type(dumped["function"])) == (SCHEMA, dict)
    with pytest.raises(AttributeError, match="nothing"):
        _ = schema.nothing


def test_the_base_tool_answers_as_verl_does() -> None:
    tool = BaseTool({"a": 1}, OpenAIFunctionToolSchema.model_validate(SCHEMA))
    assert (tool.name, tool.config) == ("count", {"a": 1})
    made, first = asyncio.run(tool.create("7", create_kwargs={}))
    response, reward, metrics = asyncio.run(tool.execute("7", {}))
    assert (made, first.is_empty(), response.text, reward, metrics) == ("7", True, "Updated the tool state.", 0.0, {})
    assert asyncio.run(tool.calc_reward("7")) == 0.0
    assert len(asyncio.run(tool.create())[0]) == 36


@pytest.mark.parametrize(
    ("response", "empty", "only_text"),
    [
        (ToolResponse(), True, False),
        (ToolResponse(text=""), True, False),
        (ToolResponse(text="a"), False, True),
        (ToolResponse(text="a", image=[1]), False, False),
    ],
)
def test_what_a_response_holds(response: ToolResponse, empty: bool, only_text: bool) -> None:
    assert (response.is_empty(), response.is_text_only()) == (empty, only_text)


@pytest.mark.parametrize("name", ["image", "video"])
def test_images_and_videos_are_lists(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a list"):
        ToolResponse(**{name: "picture"})  # type: ignore[arg-type]


def test_a_simulated_user_has_a_name() -> None:
    assert BaseInteraction({"name": "teacher"}).name == "teacher"
    assert asyncio.run(BaseInteraction({}).start_interaction("5")) == "5"


class Counter:
    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, number: int) -> int:
        self.value += number
        return self.value

    async def later(self) -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name


def test_an_actor_keeps_its_state_and_answers_by_reference() -> None:
    actor = ray.remote(Counter).options(max_concurrency=1).remote(10)
    first = actor.add.remote(1)
    assert ray.get([first, actor.add.remote(first)]) == [11, 22]

    async def waits() -> Any:
        return await actor.add.remote(1), await actor.later.options(name="x").remote()

    value, thread = asyncio.run(waits())
    assert value == 23
    assert thread != threading.main_thread().name


def test_a_named_actor_is_shared_when_asked_for() -> None:
    make = ray.remote(concurrency_groups={"a": 1})(Counter).options(name="shared", get_if_exists=True)
    assert make.remote(1) is make.remote(5)
    assert ray.get(ray.remote(Counter).remote(1).add.remote(0)) == 1


def test_functions_errors_and_the_rest() -> None:
    @ray.remote
    def double(number: int) -> int:
        return number * 2

    assert ray.get(double.remote(4)) == 8
    assert ray.get(ray.put(3)) == 3
    assert ray.is_initialized()
    with pytest.raises(ZeroDivisionError):
        ray.get(ray.remote(lambda: 1 // 0).remote())


@pytest.mark.parametrize(
    ("height", "width", "wanted"),
    [
        (100, 100, (112, 112)),
        (28, 28, (56, 56)),
        (41, 43, (56, 84)),
        (1000, 50, (1008, 56)),
        (9000, 9000, (3584, 3584)),
        (252, 336, (252, 336)),
    ],
)
def test_images_get_the_size_that_the_model_sees(height: int, width: int, wanted: tuple[int, int]) -> None:
    assert smart_resize(height, width) == wanted


def test_an_image_that_is_all_length_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 200 times"):
        smart_resize(1, 201)


def test_images_are_opened_from_every_form() -> None:
    pytest.importorskip("PIL")
    from PIL import Image

    def png(mode: str, colour: Any) -> bytes:
        with io.BytesIO() as buffer:
            Image.new(mode, (60, 60), colour).save(buffer, format="PNG")
            return buffer.getvalue()

    red = png("RGB", (255, 0, 0))
    text = "data:image/png;base64," + base64.b64encode(red).decode()
    for value in (red, {"bytes": red, "path": None}, text, Image.open(io.BytesIO(red))):
        found = fetch_image({"image": value})
        assert (found.size, found.mode, found.getpixel((0, 0))) == ((56, 56), "RGB", (255, 0, 0))
    clear = fetch_image({"image": png("RGBA", (0, 0, 0, 0)), "resized_height": 84, "resized_width": 100})
    assert (clear.size, clear.getpixel((5, 5))) == ((112, 84), (255, 255, 255))
