"""Names over several repositories: which resource a short name means, and what may be asked for."""

from typing import Any

import pytest
from tests.coordinator.bus import Bus, as_bytes, passes, replayed, settled

from interlock.coordinator.config import Config, parse_config
from interlock.coordinator.repositories import Place, Repositories, Stamp, Trusted, digest

pytestmark = pytest.mark.anyio
A, B, U = "a" * 32, "b" * 32, "c" * 32  # two trusted repositories, and one that nobody trusted
WEB = "[resources.web]\n[resources.only-{0}]\n[resources.everywhere]\n"


class FakeFiles:
    """Repositories as a table: /a, /a-w (a worktree of it), /b, /u; `/liar` only says that it belongs to /a."""

    def __init__(self) -> None:
        self.content = {"/a/bus.toml": WEB.format("a"), "/b/bus.toml": WEB.format("b"), "/u/bus.toml": WEB.format("u")}
        self.words = {A: "/a", B: "/b"}
        self.hashes = {file: digest(text.encode()) for file, text in self.content.items()}

    def place(self, directory: str) -> Place | None:
        top = "/" + directory.split("/")[1] if directory.startswith("/") else ""
        known = {"/a": (A, "/a"), "/a-w": (A, "/a"), "/liar": (A, "/a"), "/b": (B, "/b"), "/u": (U, "/u")}
        if top not in known:
            return None
        return Place(known[top][0], f"{known[top][1]}/.git", known[top][1], top, top != "/liar")

    def trusted(self) -> tuple[Trusted, ...]:
        files = {id_: f"{main}/bus.toml" for id_, main in self.words.items()}
        return tuple(Trusted(id_, "", file, self.hashes[file]) for id_, file in files.items())

    def trusted_stamp(self) -> Stamp:
        return (len(self.words),)

    def read(self, file: str) -> bytes:
        if file not in self.content:
            raise FileNotFoundError(file)
        return self.content[file].encode()

    def stamp(self, file: str) -> Stamp:
        return (hash(self.content.get(file)),)


class Town:
    """A bus with these repositories, and a home that declares some of the same names."""

    def __init__(self) -> None:
        self.files = FakeFiles()
        home = parse_config("[resources.everywhere]\n[resources.machine-only]\n", "home")
        self.repositories = Repositories(self.files, home)
        self.bus = Bus(config=self.repositories.load(), repositories=self.repositories)

    async def ask(
        self, agent: str, what: str | dict[str, Any], place: str = "", to: str = "coordinator"
    ) -> dict[str, Any]:
        client = self.bus.client(agent)
        client.session.worktree = place
        return await client.ask(what, to=to)

    async def key(self, name: str, place: str = "", given: str = "-", agent: str = "x") -> str:
        """The key that a REQUEST for that name reaches, or the code that refuses it. It is given back."""
        body = await self.ask(agent, f"REQUEST {name} {given} x", place)
        if body["type"] == "GRANTED":
            assert body["resource"] == name
            await self.ask(agent, f"RELEASE {body['key']}")
        return str(body.get("key") or body["code"])


@pytest.fixture
def town() -> Town:
    return Town()


def of(repository: str, name: str = "web") -> str:
    return f"repository/{repository}/{name}"


@pytest.mark.parametrize(
    ("name", "place", "given", "key"),
    [
        ("web", "/a", "-", of(A)),
        ("web", "/a-w", "-", of(A)),
        ("web", "/b", "-", of(B)),
        ("web", "/b", "/a-w/sub", of(A)),  # the given worktree goes before the session's
        ("web", "", "/b", of(B)),
        ("web", "", "-", "AMBIGUOUS_TARGET"),
        ("web", "/u", "-", "CAPABILITY_DENIED"),  # it means its own, which nobody trusted
        ("everywhere", "/a", "-", of(A, "everywhere")),
        ("everywhere", "", "-", "machine/everywhere"),
        ("everywhere", "/u", "-", "machine/everywhere"),
        ("machine-only", "/a", "-", "machine/machine-only"),
        ("only-a", "", "-", of(A, "only-a")),
        ("only-a", "/b", "-", of(A, "only-a")),
        ("only-a", "/b", "/b", "SCOPE_DENIED"),
        ("only-u", "/u", "-", "CAPABILITY_DENIED"),
        ("only-u", "", "/u", "CAPABILITY_DENIED"),
        ("only-u", "/a", "-", "UNKNOWN_RESOURCE"),  # from elsewhere nobody has heard of it
        ("only-v", "/a", "-", "UNKNOWN_RESOURCE"),
        (of(A), "/b", "/a", of(A)),
        (of(A), "/b", "/b", "SCOPE_DENIED"),
        (of(A), "/a", "/liar", "SCOPE_DENIED"),
        (of(A), "/a", "/nowhere", "SCOPE_DENIED"),
        (of(A, "undeclared"), "/a", "/b", "SCOPE_DENIED"),
        (of(U, "only-u"), "/u", "-", "CAPABILITY_DENIED"),
        ("repository/a-name/web", "", "/b", "repository/a-name/web"),  # an id that is no repository's is only a name
    ],
)
async def test_what_a_name_means(town: Town, name: str, place: str, given: str, key: str) -> None:
    async with town.bus.running():
        assert await town.key(name, place, given) == key


async def test_a_folder_inside_of_a_worktree_means_that_worktree(town: Town) -> None:
    async with town.bus.running():
        assert (await town.ask("x", "REQUEST web /a-w/deep/inside t"))["worktree"] == "/a-w"
        assert (await town.ask("x", "REQUEST machine/lock /a-w/deep/inside t"))["worktree"] == "/a-w/deep/inside"


async def test_what_i_have_is_meant_where_the_place_does_not_say(town: Town) -> None:
    async with town.bus.running():
        assert (await town.ask("x", "REQUEST web - t", "/a"))["type"] == "GRANTED"
        assert (await town.ask("x", "EXTEND web more", ""))["key"] == of(A)
        assert (await town.ask("x", {"type": "CHECK", "resource": "web"}, "", "supervisor"))["key"] == of(A)
        assert (await town.ask("x", {"type": "CHECK", "resource": "web"}, "/b", "supervisor"))["code"] == "NOT_HOLDER"
        assert (await town.ask("x", "EXTEND web more", "/b"))["key"] == of(A)  # no name is no question of place
        assert (await town.ask("x", {"type": "RELEASE", "resource": ""}, "/b"))["key"] == of(A)
        await town.ask("x", "REQUEST web - t", "/a")
        assert (await town.ask("x", "RELEASE web", ""))["key"] == of(A)


async def test_what_i_have_from_this_worktree_stays_meant_when_a_repository_begins_to_declare_it(town: Town) -> None:
    del town.files.words[A]
    town.bus.supervisor.reconfigure(town.repositories.load())
    async with town.bus.running():
        assert (await town.ask("x", "REQUEST everywhere /a t", "/a"))["key"] == "machine/everywhere"
        town.files.words[A] = "/a"
        town.bus.supervisor.reconfigure(town.repositories.load())
        assert (await town.ask("x", "RELEASE everywhere", "/a"))["key"] == "machine/everywhere"
        assert await town.key("everywhere", "/a") == of(A, "everywhere")


async def test_of_two_with_one_name_only_the_key_says_which(town: Town) -> None:
    async with town.bus.running():
        await town.ask("x", "REQUEST web - t", "/a")
        await town.ask("x", "REQUEST web - t", "/b")
        me = await town.ask("x", {"type": "ME"}, "", "supervisor")
        assert {each["next"] for each in me["tickets"]} == {f"bus release {of(A)}", f"bus release {of(B)}"}
        [row] = (await town.ask("x", {"type": "AGENTS"}, "", "supervisor"))["agents"]
        assert row["holds"] == [of(A), of(B)]
        assert (await town.ask("x", "RELEASE web", ""))["code"] == "AMBIGUOUS_TARGET"
        nameless = await town.ask("x", {"type": "RELEASE", "resource": ""}, "")
        assert nameless["why"] == f"say which: {of(A)}, {of(B)}"
        assert (await town.ask("x", "RELEASE web", "/b"))["key"] == of(B)


async def test_a_person_takes_back_what_the_name_means_where_the_person_stands(town: Town) -> None:
    async with town.bus.running():
        await town.ask("x", "REQUEST everywhere - t", "")
        await town.ask("y", "REQUEST everywhere - t", "/a")
        await town.ask("z", "REQUEST web - t", "/b")
        for name, place, key in [("everywhere", "/a", of(A, "everywhere")), ("web", "/b", of(B))]:
            revoke = {"type": "REVOKE", "resource": name, "because": "the demo", "by": "sam"}
            assert (await town.ask("sam", revoke, place, "supervisor"))["key"] == key
        assert (await town.ask("x", "EXTEND everywhere", ""))["key"] == "machine/everywhere"


@pytest.mark.parametrize("change", ["# other\n", "", None, "[bus]\n", "[resources.web]\nunits = ['1', '2']\n"])
async def test_a_changed_file_serves_nobody_new_and_takes_nothing_away(town: Town, change: str | None) -> None:
    async with town.bus.running():
        await town.ask("x", "REQUEST web - t", "/a")
        assert (await town.ask("y", "REQUEST web - t", "/a"))["type"] == "QUEUED"
        before = town.files.content.pop("/a/bus.toml")
        if change is not None:
            town.files.content["/a/bus.toml"] = change
        for name in ("web", of(A)):
            refused = await town.ask("z", f"REQUEST {name} - t", "/a")
            assert refused["code"] == "CAPABILITY_DENIED"
            assert "/a/bus.toml" in refused["why"]
            assert f"'{name}' is declared only in " in refused["why"]
        assert (await town.ask("x", "REQUEST web - t", "/a"))["type"] == "GRANTED"  # its own again
        assert (await town.ask("y", "REQUEST web - t", "/a"))["type"] == "QUEUED"
        assert (await town.ask("x", "RELEASE web", "/a"))["type"] == "RELEASED"
        assert (await town.ask("y", {"type": "CHECK", "resource": "web"}, "/a", "supervisor"))["type"] == "GRANTED"
        assert (await town.ask("y", "RELEASE web", "/a"))["type"] == "RELEASED"
        town.files.words.pop(B)
        town.bus.supervisor.reconfigure(town.repositories.load())
        assert (await town.ask("z", "REQUEST web - t", ""))["code"] == "CAPABILITY_DENIED"  # from anywhere
        [status] = (await town.ask("z", {"type": "STATUS", "resource": "web"}, "", "supervisor"))["resources"]
        assert status["resource"] == of(A)
        town.files.content["/a/bus.toml"] = before
        assert await town.key("web", "/a") == of(A)


async def test_status_calls_each_what_the_bus_takes_for_it_there(town: Town) -> None:
    async with town.bus.running():
        shown = (await town.ask("x", {"type": "STATUS"}, "/a", "supervisor"))["resources"]
        names = {each["resource"]: each["name"] for each in shown}
        assert names[of(A)] == "web"
        assert names[of(B)] == of(B)
        assert names[of(B, "only-b")] == "only-b"
        assert names["machine/everywhere"] == "machine/everywhere"  # there the short name is the repository's
        assert {each["resource"]: each.get("repository") for each in shown}[of(B)] == "/b"
        await town.ask("x", "REQUEST web - t", "/a")
        town.files.content["/a/bus.toml"] += "#"
        [web] = (await town.ask("x", {"type": "STATUS", "resource": "web"}, "/a", "supervisor"))["resources"]
        assert (web["resource"], web["name"]) == (of(A), "web")
        assert "has changed since it was trusted" in web["suspended"]


async def test_without_any_repository_nothing_is_looked_up(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(town.files, "place", looked.append)
    repositories = Repositories(town.files, Config())
    town.files.words.clear()
    bus = Bus(config=repositories.load(parse_config("[resources.web]\n", "home")), repositories=repositories)
    async with bus.running():
        assert (await bus.client("x").ask("REQUEST web /a t"))["type"] == "GRANTED"
    assert not looked


async def test_a_forgotten_repository_leaves_no_record_and_one_in_use_is_not_forgotten(town: Town) -> None:
    async with town.bus.running():
        await town.ask("x", "REQUEST web - t", "/a")
        refused = await town.ask("x", {"type": "FORGET", "repository": A}, to="supervisor")
        assert refused["code"] == "RESOURCE_BUSY"
        assert refused["why"].startswith("web of it is held")
        await town.ask("x", "RELEASE web", "/a")
        assert (await town.ask("x", {"type": "FORGET", "repository": A}, to="supervisor"))["resources"] == [of(A)]
        await settled()
        assert of(A) not in town.bus.supervisor.world.resources
        assert as_bytes(await replayed(town.bus.store)) == as_bytes(town.bus.supervisor.world)
        assert await town.key("web", "/a") == of(A)


async def test_who_is_late_hears_when_and_why_it_was_lost_and_extends_nothing_else(bus: Bus) -> None:
    """However it is said: by its key, by its name, or by no name at all."""
    async with bus.running():
        a, b = bus.client("a"), bus.client("b")
        await a.ask("REQUEST machine/lost - a test, 5m")
        await b.ask("REQUEST machine/lost -")
        await passes(20 * 60)
        for text in ("EXTEND machine/lost, 5m", "EXTEND machine/lost still, 5m", "EXTEND", "RELEASE machine/lost"):
            answer = await a.ask(text)
            assert (answer["code"], "no answer to 2 polls" in answer["why"]) == ("NOT_HOLDER", True), (text, answer)
        revoked = await a.ask({"type": "WAIT"}, to="supervisor")
        assert (revoked["type"], revoked["key"]) == ("REVOKED", "machine/lost")
        await a.ask("REQUEST machine/kept -")
        assert (await a.ask("EXTEND machine/lost, 5m"))["code"] == "NOT_HOLDER"
        assert (await a.ask("EXTEND still, 5m"))["key"] == "machine/kept"


BUILDS = '[profiles.build]\ncommands = ["just build"]\n'


@pytest.mark.parametrize(
    ("place", "holds"),
    [("/a", True), ("/a-w", True), ("/b", False), ("/liar", False), ("/u", False), ("/else", False), ("", False)],
)
async def test_a_repository_s_builds_hold_for_its_worktrees_and_the_home_s_everywhere(place: str, holds: bool) -> None:
    # given
    files = FakeFiles()
    for main in ("/a", "/u"):
        files.content[f"{main}/bus.toml"] = BUILDS
        files.hashes[f"{main}/bus.toml"] = digest(BUILDS.encode())
    repositories = Repositories(files, parse_config('[profiles.build]\ncommands = ["scripts/ci"]\n', "home"))
    bus = Bus(config=repositories.load(), repositories=repositories)
    client = bus.client("A")
    client.session.worktree = place
    # when
    found = bus.desk.names.builds(client.session)
    # then
    assert found == ((("scripts/ci",), ("just", "build")) if holds else (("scripts/ci",),))
    # when
    files.content["/a/bus.toml"] += "# changed, and not trusted\n"
    # then
    assert bus.desk.names.builds(client.session) == (("scripts/ci",),)


async def test_the_log_of_a_territory_is_asked_for_by_its_key(town: Town) -> None:
    """It is no resource: nobody can ask for it."""
    async with town.bus.running():
        said = await town.ask("ann", {"type": "TAIL", "resource": f"territory/{A}"}, to="supervisor")
        assert (said["type"], said["end"]) == ("EVENTS", True)
        for no_key in ("territory/", "territory/a/b", "territory/a b"):
            said = await town.ask("ann", {"type": "TAIL", "resource": no_key}, to="supervisor")
            assert said["code"] == "BAD_MESSAGE"
        assert (await town.ask("ann", f"REQUEST territory/{A} -"))["code"] == "BAD_MESSAGE"
