"""Repositories without a disk: what lies below `/r1` is the one, below `/r2` the other."""

from interlock.coordinator.config import Config
from interlock.coordinator.repositories import NoRepositories, Place, Repositories


class PlainPlaces(NoRepositories):
    """RepositoryFiles of directories that are what they are called."""

    def place(self, directory: str) -> Place | None:
        top = "/".join(directory.split("/")[:2])
        return Place(top.strip("/") * 4, f"{top}/.git", top, top, True) if top.startswith("/r") else None


def plain_repositories() -> Repositories:
    return Repositories(PlainPlaces(), Config())
