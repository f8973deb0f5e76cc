"""The hunks between blobs, many pairs at once: what git says they are makes the new text of the old one."""

import random

import pytest
from tests.adapters.territory_repository import Repository

from interlock.adapters.territory.git_call import Git
from interlock.adapters.territory.line_map import LineMaps
from interlock.adapters.territory.spans import Hunk, Span

PAIRS = 200
LIKE_A_DIFF = [
    "@@ -1,1 +1,1 @@", "diff --git a/0 b/0", "--- a/0", "+++ b/0", "Binary files a/0 and b/0 differ", "\\ No newline",
    "", "\r", "x\rdiff --git a/1 b/1", "é",
]  # fmt: skip


def text(chance: random.Random) -> list[str]:
    return [chance.choice([*LIKE_A_DIFF, *"abcdefgh"]) for _ in range(chance.randint(0, 20))]


def varied(old: list[str], chance: random.Random) -> list[str]:
    new = list(old)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(new))
        new[at : at + chance.randint(0, 3)] = text(chance)[: chance.randint(0, 3)]
    return new


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("maps"))


def blobs(repository: Repository, contents: list[bytes]) -> list[str]:
    """The ids of blobs of these contents."""
    repository.write({f"{number}": content for number, content in enumerate(contents)})
    names = "".join(f"{repository.place}/{number}\n" for number in range(len(contents)))
    return repository.git("hash-object", "-w", "--no-filters", "--stdin-paths", given=names.encode()).split()


def test_the_hunks_of_many_pairs_make_the_new_text_of_the_old(repository: Repository) -> None:
    chance = random.Random(7)
    texts = []
    for _ in range(PAIRS):
        old = text(chance)
        texts += [old, varied(old, chance)]
    contents = ["".join(f"{line}\n" for line in each).encode() for each in texts]
    contents = [each[:-1] if chance.random() < 0.2 else each for each in contents]  # without a last newline
    ids = blobs(repository, contents)
    maps = LineMaps(Git(str(repository.place)))
    pairs = list(zip(ids[0::2], ids[1::2], strict=True))
    maps.load(pairs)
    hunks_seen = 0
    for number, pair in enumerate(pairs):
        hunks = maps.hunks(*pair)
        assert hunks is not None
        before, after = (contents[2 * number + side].split(b"\n") for side in (0, 1))
        made, at = list[bytes](), 0
        for hunk in hunks:
            made += before[at : hunk.old.after] + after[hunk.new.after : hunk.new.last]
            at = hunk.old.last
        made += before[at:]
        assert b"\n".join(made).rstrip(b"\n") == contents[2 * number + 1].rstrip(b"\n")
        hunks_seen += len(hunks)
    assert hunks_seen > PAIRS


def test_what_is_no_text_or_not_there_is_not_known_and_harms_no_other(repository: Repository) -> None:
    good, better, binary = blobs(repository, [b"a\nb\n", b"a\nc\n", b"\0"])
    tree = repository.git("mktree", given=b"")
    gone = "ab" * 20
    maps = LineMaps(Git(str(repository.place)))
    maps.load([(good, gone), (good, binary), (good, better), (tree, good), (gone, gone), ("", good)])
    assert maps.hunks(good, better) == (Hunk(Span(1, 2), Span(1, 2)),)
    assert [maps.hunks(*pair) for pair in ((good, gone), (good, binary), (tree, good), ("", good))] == [None] * 4
    assert maps.hunks(gone, gone) == (), "whatever it is, it is the same"
    maps.load([(better, good), (good, better)])
    assert maps.hunks(better, good) == (Hunk(Span(1, 2), Span(1, 2)),)


def test_the_repository_is_not_written_to(repository: Repository) -> None:
    old, new = blobs(repository, [b"1\n", b"2\n"])
    before = sorted(path for path in (repository.place / ".git").rglob("*"))
    LineMaps(Git(str(repository.place))).load([(old, new)])
    assert sorted(path for path in (repository.place / ".git").rglob("*")) == before
