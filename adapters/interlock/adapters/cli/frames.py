"""A frame as JSON gives it: what the blocking client passes around."""

from typing import Any

Frame = dict[str, Any]
