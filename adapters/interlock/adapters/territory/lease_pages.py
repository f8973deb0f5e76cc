"""Every lease of a repository, asked for page by page."""

from collections.abc import Callable, Iterator
from typing import Any

PAGES_MAX = 1000  # more leases than there can be


def lease_pages(
    ask: Callable[[dict[str, Any]], dict[str, Any]], directory: str, *, mine: bool = False
) -> Iterator[dict[str, Any]]:
    """The answers, each with some of the leases: those in force first, then those that wait.

    Args:
        ask: puts a question to the supervisor; returns the body of the answer. directory: in the repository.
        mine: only the asker's.
    """
    question = {"type": "LEASES", "directory": directory, **({"mine": True} if mine else {})}
    after = ""
    for _ in range(PAGES_MAX):
        page = ask({**question, "after": after})
        yield page
        if not page.get("more") or not page["leases"]:
            return
        after = page["leases"][-1]["lease"]
