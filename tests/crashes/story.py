"""How one point of the sweep went: what it told, and what broke."""

import msgspec


class Story(msgspec.Struct):
    """How one point went.

    Args:
        met: the call that the fault happened at; "" where the conversation has none of that number.
        died: the watched supervisor ended by it.
        no: the sentences that clients heard.
        broken: what does not hold; empty: it survived.
        said: what clients were told, in order.
    """

    point: str
    met: str = ""
    died: bool = False
    no: list[str] = []
    broken: list[str] = []
    said: list[str] = []
    counts: dict[str, int] = {}

    def told(self) -> str:
        """The whole of it, for a person."""
        lines = [f"{self.point}: at {self.met or 'no call'}; the supervisor {'ended' if self.died else 'went on'}"]
        lines += [f"    said   {each}" for each in self.said]
        lines += [f"    heard  {each}" for each in dict.fromkeys(self.no)]
        lines += [f"    BROKEN {each}" for each in self.broken]
        lines.append(f"    again  scripts/crash-sweep --point {self.point}")
        return "\n".join(lines)
