# SPDX-License-Identifier: Apache-2.0
"""Draws `walk`, a list of numbers that an earlier execution of the session left, into walk.png. By matplotlib where the image has it."""
import struct
import zlib


def png(width, height, rows):
    """A picture of one byte a pixel, by the standard library alone."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def draw(values, width=640, height=240):
    low, high = min(values), max(values)
    rows = [bytearray(b"\xff" * width) for _ in range(height)]
    before = None
    for x in range(width):
        value = values[x * (len(values) - 1) // (width - 1)]
        y = round((high - value) / ((high - low) or 1) * (height - 1))
        for between in range(min(y, y if before is None else before), max(y, y if before is None else before) + 1):
            rows[between][x] = 40
        before = y
    return png(width, height, rows)


try:
    import matplotlib.pyplot as plt

    plt.plot(walk)  # noqa: F821
    plt.savefig("walk.png")
    how = "matplotlib"
except ImportError:
    with open("walk.png", "wb") as file:
        file.write(draw(walk))  # noqa: F821
    how = "the standard library: this image has no matplotlib"
print("walk.png, drawn by", how)
