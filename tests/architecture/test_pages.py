"""The pages are true: every link leads somewhere, every command exists, every sentence is one that the bus says.

Nothing here needs the tool that draws the site; `scripts/site` is strict about the rest.
"""

import importlib
import re
import shlex
import sys
import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from interlock.coordinator.config import parse_config
from interlock.protocol.codes import Code

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(ROOT).as_posix() for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
TROUBLE = DOCS / "operations" / "troubleshooting.md"
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
CHARTS = {"performance.svg"}  # pictures that are no terminals
GENERATED = "<!-- Made by scripts/docs.py"


def script(name: str) -> ModuleType:
    """A script's functions; `scripts` is a folder of the repository, not a package that is installed."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module(f"scripts.{name}")


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return BLOCK.sub("", text)


def blocks(language: str) -> list[tuple[str, str]]:
    """Every block of a language, with its page."""
    found = []
    for page in PAGES:
        for _, named, body in BLOCK.findall(text_of(page)):
            if named == language:
                found.append((page, body))
    return found


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as both the site and a forge make them for headings like ours."""
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)}


def slug(heading: str) -> str:
    plain = unicodedata.normalize("NFKD", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain.encode("ascii", "ignore").decode()).strip().lower())


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_anchor_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text_of(page))):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        there = (ROOT / page).parent / path if path else ROOT / page
        assert there.exists(), f"{page} leads to {target}, which is not there"
        if anchor:
            assert anchor in anchors(there.read_text()), f"{page} leads to {target}, but no heading there is called so"


def test_every_page_is_in_the_navigation_once() -> None:
    site = script("build_site")
    shown = [page for pages in site.navigation().values() for page in pages]
    assert sorted(shown) == sorted(site.places().values())
    assert len(shown) == len(set(shown))
    assert shown[0] == "index.md"


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_one_title(page: str) -> None:
    titles = re.findall(r"^# .+$", prose(text_of(page)), re.MULTILINE)
    assert len(titles) == 1, f"{page} has {len(titles)} titles: begin with `# Title`, and only once"


def test_links_out_of_docs_lead_to_pages_of_the_site() -> None:
    """A link from docs/ to ARCHITECTURE.md is drawn; one to a source file would be dead in the site."""
    site = script("build_site")
    for page, place in site.places().items():
        for target in re.findall(r"\]\(([^)#\s]+)", prose(site.rewritten(page, page.read_text()))):
            if not re.match(r"[a-z]+:", target):
                there = Path("/", place).parent / target
                inside = Path(*there.resolve().parts[1:]).as_posix()
                assert inside in site.places().values() or (DOCS / inside).is_file(), f"{page}: {target} is not there"


def commands(text: str) -> Iterator[list[str]]:
    """Every call of `bus` on a page: in consoles and other blocks of code, and between backticks."""
    for _, language, body in BLOCK.findall(text):
        for line in body.splitlines():
            found = re.search(r"(?:^|\$ |^\t|^ +|: \"|&& )(bus .+)", line)
            if found and (language in {"make", "json", "sh"} or line.lstrip().startswith(("$ ", "("))):
                yield _words(found[1])
        if language == "text":  # what is pasted into prompts
            for verb, rest in re.findall(r"\bbus ([a-z]+)(.*?)(?=\bbus |$)", body, re.MULTILINE):
                yield [verb, *re.findall(r"(?<= )--(?:[a-z-]+)?", rest)]
    for found in re.finditer(r"`(bus [^`]+)`", prose(text)):
        yield _words(found[1])


def _words(line: str) -> list[str]:
    line = re.sub(r"\s+#.*$|\"\}+$|\s\[exit.*$", "", line)
    try:
        return shlex.split(line)[1:]
    except ValueError:
        return line.split()[1:]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_a_page_exists_with_its_options(page: str) -> None:
    reference = script("reference")
    every = reference.verbs()
    common = {word: option for option in every[""].params for word in option.opts}
    for words in commands(text_of(page)):
        verb, options = _verb(words, every, common)
        if verb == "…" or (verb.isupper() and not options):  # `bus …`, and VERB where the page speaks of any
            continue
        assert verb in every, f"{page}: there is no `bus {verb}`: {words}"
        known = {word for option in every[verb].params for word in (*option.opts, *option.secondary_opts)}
        unknown = options - known - set(common) - {"--help", "-h"}
        assert not unknown, f"{page}: bus {verb} has no {unknown}"


def _verb(words: list[str], every: dict[str, Any], common: dict[str, Any]) -> tuple[str, set[str]]:
    """The verb of a call, and its options, as far as they are ours: not what stands behind a `--`."""
    ours = words[: words.index("--")] if "--" in words else words
    options = {word.partition("=")[0] for word in ours if re.match(r"--?[a-z]", word)}
    plain, skip = [], False
    for word in ours:
        if skip:
            skip = False
        elif word in common:
            skip = not getattr(common[word], "is_flag", False)
        elif not word.startswith("-"):
            plain.append(word)
    two = " ".join(plain[:2])
    return (two if two in every else plain[0] if plain else ""), options


@pytest.mark.parametrize(("page", "block"), blocks("toml"), ids=lambda value: value.partition("\n")[0])
def test_every_configuration_on_a_page_is_taken(page: str, block: str) -> None:
    """By the parser itself. What is for another program's file begins with a comment that names that file."""
    if re.match(r"# .*\.toml\b", block) and not block.startswith("# bus.toml"):
        assert tomllib.loads(block)
        return
    table = tomllib.loads(block)
    assert {"bus", "resources", "profiles", "agents", "territory"} & set(table), (
        f"{page}: is that a bus.toml? write its table's heading"
    )
    parse_config(block, page)


def test_no_configuration_hides_from_the_parser() -> None:
    hidden = [page for language in ("", "text") for page, block in blocks(language) if "[resources." in block]
    assert not hidden, f"{hidden}: write ```toml before it, so that it is parsed"


def entries() -> list[str]:
    """The sentences that troubleshooting explains."""
    text = TROUBLE.read_text()
    headed = re.findall(r"^(?:### |\| )`([^`]+)`", text, re.MULTILINE)
    also = [each for line in re.findall(r"^Also: (.+)$", text, re.MULTILINE) for each in re.findall(r"`([^`]+)`", line)]
    return headed + also


def says(text: str, entry: str) -> bool:
    """Whether a text of the sources is what an entry of the page means: there `…` stands for whatever is put in."""
    at = 0
    for part in entry.split("…"):
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def test_every_sentence_of_troubleshooting_is_one_that_the_bus_says() -> None:
    said = script("sentences").every_text()
    for entry in entries():
        longest = max(entry.split("…"), key=len)  # few texts have that
        known = any(longest in text and says(text, entry) for text in said)
        assert known, f"nothing in the sources says {entry!r} any more"


def test_troubleshooting_has_an_entry_for_every_sentence() -> None:
    known = entries()
    every = script("sentences").sentences()
    missing = [
        f"{where}: {said}"
        for said, where in every.items()
        if re.search(r"[a-z]{3}", said) and not any(says(said, entry) for entry in known)
    ]
    assert not missing, "explain these in docs/operations/troubleshooting.md:\n" + "\n".join(missing)


def test_troubleshooting_leads_from_every_code() -> None:
    named = set(re.findall(r"`([A-Z_]+)`", TROUBLE.read_text()))
    assert set(Code) <= named, set(Code) - named


@pytest.mark.parametrize("picture", sorted(path.name for path in DOCS.glob("*.svg")))
def test_a_picture_shows_commands_that_exist_and_fetches_nothing(picture: str) -> None:
    reference = script("reference")
    text = (DOCS / picture).read_text()
    ElementTree.fromstring(text)
    assert not re.findall(r"(?:href|src|url\()[^>]*https?:", text)
    assert "/tmp" not in text
    assert str(Path.home()) not in text
    shown = set(re.findall(r">bus (?:--as \w+ )?([a-z]+)", text))
    assert shown or picture in CHARTS
    assert shown <= set(reference.verbs())


def test_a_page_of_a_module_has_its_public_names_with_what_they_mean() -> None:
    page = script("reference").module_page("interlock.protocol.durations", "Durations", "How long.")
    assert "## parse_duration\n\n```python\ndef parse_duration(text: str) -> int | None\n```" in page
    assert "**Returns**" in page
    assert "- `text`:" in page
    assert "_UNITS_MS" not in page


def test_every_verb_says_its_exit_codes() -> None:
    from interlock.adapters.cli import app, exits

    silent = {*app.EVERYDAY, *app.OTHERS} - set(exits.MEANINGS)
    assert not silent, f"say what the exit codes of {silent} mean, in adapters/interlock/adapters/cli/exits.py"
