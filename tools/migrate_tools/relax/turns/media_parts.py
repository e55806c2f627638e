"""How Qwen-VL recipes open an image: `fetch_image`, without torch. Copied into the examples whose tools use it.

Behaviour as the package qwen-vl-utils: RGB on white, both sides multiples of the factor, the area between two bounds.
"""

from __future__ import annotations

import base64
import io
import math
from typing import Any

PATCH = 14
MIN_TOKENS, MAX_TOKENS = 4, 16384
MAX_RATIO = 200
OPEN_SECONDS = 30


def smart_resize(
    height: int, width: int, factor: int = 2 * PATCH, min_pixels: int | None = None, max_pixels: int | None = None
) -> tuple[int, int]:
    """(height, width) near the given ones: multiples of `factor`, the area between the bounds.

    Raises:
        ValueError: one side is more than MAX_RATIO times the other.
    """
    least, most = min_pixels or MIN_TOKENS * factor**2, max_pixels or MAX_TOKENS * factor**2
    if max(height, width) > MAX_RATIO * min(height, width):
        raise ValueError(f"one side of {width}x{height} is more than {MAX_RATIO} times the other")
    rows, columns = (max(factor, round(side / factor) * factor) for side in (height, width))
    if rows * columns > most:
        scale = math.sqrt(height * width / most)
        rows, columns = (max(factor, math.floor(side / scale / factor) * factor) for side in (height, width))
    elif rows * columns < least:
        scale = math.sqrt(least / (height * width))
        rows, columns = (math.ceil(side * scale / factor) * factor for side in (height, width))
    return rows, columns


def open_image(value: Any) -> Any:
    """An image that is open, a struct with bytes or a path, bytes, a path, a file: or data: URI, or an address."""
    from PIL import Image

    if isinstance(value, dict):
        value = next((value[key] for key in ("bytes", "path", "image") if value.get(key) is not None), None)
    if isinstance(value, bytes):
        return Image.open(io.BytesIO(value))
    if not isinstance(value, str):
        return value
    if value.startswith(("http://", "https://")):
        from urllib.request import urlopen

        with urlopen(value, timeout=OPEN_SECONDS) as answer:
            return Image.open(io.BytesIO(answer.read()))
    if value.startswith("data:"):
        return Image.open(io.BytesIO(base64.b64decode(value.partition(",")[2])))
    return Image.open(value.removeprefix("file://"))


def fetch_image(ele: dict[str, Any], image_patch_size: int = PATCH, **_: Any) -> Any:
    """The image of a message part, in RGB and in the size that the model sees."""
    from PIL import Image

    image = open_image(ele["image"] if "image" in ele else ele["image_url"])
    if image.mode == "RGBA":
        white = Image.new("RGB", image.size, (255, 255, 255))
        white.paste(image, mask=image.split()[3])
        image = white
    image = image.convert("RGB")
    factor = 2 * int(image_patch_size)
    if "resized_height" in ele and "resized_width" in ele:
        height, width = smart_resize(ele["resized_height"], ele["resized_width"], factor)
    else:
        height, width = smart_resize(image.height, image.width, factor, ele.get("min_pixels"), ele.get("max_pixels"))
    return image.resize((width, height))
