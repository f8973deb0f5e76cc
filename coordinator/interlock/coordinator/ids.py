"""Ids: where the coordinator draws chance and time for the names of messages. The machines never do."""

import os
import time


def new_id() -> str:
    """A UUIDv7: its first 48 bits are the time (ms), so ids sort as they were made."""
    return uuid_v7(int(time.time() * 1000), int.from_bytes(os.urandom(10)))


def uuid_v7(at_ms: int, rest: int) -> str:
    """Args: at_ms: since the epoch. rest: 80 bits, of which 74 are used."""
    value = (at_ms & 0xFFFF_FFFF_FFFF) << 80 | rest
    value = value & ~(0xF << 76) | 0x7 << 76
    text = f"{value & ~(0x3 << 62) | 0x2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
