"""Pickled PIL images to PNG, without running what a pickle may hold."""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from typing import Any

CHANNELS = {"L": (0, 1), "LA": (4, 2), "RGB": (2, 3), "RGBA": (6, 4), "P": (3, 1)}
"""Mode -> PNG colour type, bytes a pixel."""


class _Image:
    """Takes the state that PIL gives an image, and nothing else."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _ImagesOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("PIL.") and "Image" in name:
            return _Image
        raise pickle.UnpicklingError(f"{module}.{name} is no image")


def looks_pickled(data: bytes) -> bool:
    """Whether bytes begin and end like a pickle of protocol 2 or later; no format of pictures or sound does."""
    framed = data[1:2] in (b"\x02", b"\x03") or data[1:3] in (b"\x04\x95", b"\x05\x95")
    return data[:1] == b"\x80" and framed and data[-1:] == b"."


def png_of_pickle(data: bytes) -> bytes:
    """The picture inside a pickle as PNG; only PIL images are read, any other content is refused.

    Raises:
        ValueError: it is no PIL image, or one whose pixels PNG does not know.
    """
    try:
        image = _ImagesOnly(io.BytesIO(data)).load()
    except Exception as error:
        raise ValueError(f"a pickle that is no PIL image ({error})") from error
    state = image.state if isinstance(image, _Image) else None
    if not isinstance(state, list | tuple) or len(state) < 5:
        raise ValueError("a pickle that is no PIL image")
    _, mode, size, palette, pixels = state[:5]
    if mode not in CHANNELS or not isinstance(pixels, bytes) or len(size) != 2:
        raise ValueError(f"a pickled PIL image of mode {mode}")
    width, height = (int(item) for item in size)
    kind, channels = CHANNELS[mode]
    if len(pixels) != width * height * channels or not pixels:
        raise ValueError("a pickled PIL image whose pixels do not fit its size")
    stride = width * channels
    rows = b"".join(b"\0" + pixels[start : start + stride] for start in range(0, len(pixels), stride))
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    colours = _block(b"PLTE", bytes(palette or ())[:768]) if mode == "P" else b""
    body = _block(b"IDAT", zlib.compress(rows, 1))
    return b"\x89PNG\r\n\x1a\n" + _block(b"IHDR", head) + colours + body + _block(b"IEND", b"")


def _block(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
