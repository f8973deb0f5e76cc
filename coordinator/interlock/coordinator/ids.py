"""Ids: where the coordinator draws chance and time for the names of messages. The machines never do."""

import os
import random
import time

_VARIANTS = "89ab"
# Of its own, so that no program that seeds `random` repeats ids; a system call an id would cost as much as its message.
_chance = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_chance.seed)


def new_id() -> str:
    """A UUIDv7: its first 48 bits are the time (ms), so ids sort as they were made."""
    at, chance = f"{int(time.time() * 1000):012x}", f"{_chance.getrandbits(74):019x}"
    return f"{at[:8]}-{at[8:]}-7{chance[1:4]}-{_VARIANTS[int(chance[0])]}{chance[4:7]}-{chance[7:]}"


def uuid_v7(at_ms: int, rest: int) -> str:
    """Args: at_ms: since the epoch. rest: 80 bits, of which 74 are used."""
    value = (at_ms & 0xFFFF_FFFF_FFFF) << 80 | rest
    value = value & ~(0xF << 76) | 0x7 << 76
    text = f"{value & ~(0x3 << 62) | 0x2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
