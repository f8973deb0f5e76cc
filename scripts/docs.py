"""Writes the pages that follow from the code: docs/protocol/ (messages, events, codes, limits) and docs/reference/.

.venv/bin/python scripts/docs.py            writes them
.venv/bin/python scripts/docs.py --check    says which are stale, exit 1
"""

import ast
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path

import msgspec

from interlock.coordinator import records
from interlock.protocol import control, limits, messages
from interlock.protocol.codes import TABLE
from interlock.protocol.grammar import VERBS

DOCS = Path(__file__).parents[1] / "docs"
NOTE = "<!-- Made by scripts/docs.py from the code: change it there. -->\n\n"


def messages_page() -> str:
    """Every message, with its fields."""
    parts = [
        NOTE
        + "# Messages\n\nText and typed form carry the same fields. A message is one JSON envelope on one line of the "
        'socket, `{"to": "coordinator", "text": "REQUEST …"}` or `{"to": …, "body": {"type": "REQUEST", …}}`; '
        "`bus send` writes it for you.\n\n## To the coordinator\n",
    ]
    parts += [_section(struct, VERBS[_tag(struct)]) for struct in typing.get_args(messages.ToCoordinator)]
    parts.append("## From the coordinator\n")
    parts += [_section(struct) for struct in typing.get_args(messages.FromBus)]
    parts.append("## To the supervisor\n\nQuestions to the bus itself (`to: supervisor`); they change no queue.\n")
    parts += [_section(struct) for struct in typing.get_args(control.Control)]
    parts.append("## From the supervisor\n")
    parts += [_section(struct) for struct in typing.get_args(control.Answer)]
    return "\n".join(parts)


def events_page() -> str:
    """Every event of the log."""
    head = NOTE + (
        "# Events\n\nWhat `bus tail --json` shows, one object a line: `seq`, `at`, `actor`, `type` and the event's own "
        "fields. `seq` has no gaps but where a lost database was recovered from: there it jumps ahead, so that a fence "
        "(the `seq` of its `granted`) never comes twice.\n"
    )
    return "\n".join([head, *(_section(struct) for struct in typing.get_args(records.Event))])


def codes_page() -> str:
    """Every code, as `bus errors` prints it."""
    rows = [
        f"| `{row.code}` | {int(row.exit)} | {'yes' if row.retry else 'no'} | {row.meaning} | {row.next} |"
        for row in TABLE.values()
    ]
    return NOTE + (
        '# Codes\n\nEvery expected no. As JSON: `{"error": {"code", "message", "next"}}`.\n\n'
        "| code | exit | can a retry help? | meaning | what to do |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def limits_page() -> str:
    """Every bound, with its reason, as limits.py has them."""
    rows = []
    for line in inspect.getsource(limits).splitlines():
        found = re.match(r"([A-Z_]+) = ([^#]+?)\s*(?:#\s*(.*))?$", line)
        if found:
            value = getattr(limits, found[1])
            rows.append(f"| `{found[1]}` | {value:,} | {found[3] or ''} |")
    return NOTE + "# Limits\n\n| name | value | why |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _section(struct: type, form: str = "") -> str:
    """One message or event: its word, what it means, its fields."""
    lines = [f"### {_tag(struct)}\n"]
    if form:
        lines.append(f"`{form}`\n")
    about = inspect.getdoc(struct) or ""
    if struct.__doc__ and not about.startswith(struct.__name__ + "("):
        lines.append(about.replace("Args:\n", "\n").replace("    ", "- ").strip() + "\n")
    fields = msgspec.structs.fields(struct)
    if fields:
        lines.append("| field | type | default |\n|---|---|---|")
        lines += [f"| `{each.encode_name}` | {_type(each.type)} | {_default(each)} |" for each in fields]
        lines.append("")
    return "\n".join(lines)


def _tag(struct: type) -> str:
    return str(typing.cast(type[msgspec.Struct], struct).__struct_config__.tag)


def _type(kind: object) -> str:
    text = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    return "`" + re.sub(r"[\w.]+\.(\w+)", r"\1", text).replace("|", "or") + "`"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{ast.literal_eval(repr(field.default))!r}`" if _plain(field.default) else ""
    return "" if field.required else "empty"


def _plain(value: object) -> bool:
    return isinstance(value, str | int | bool | tuple | type(None)) and type(value) in {
        str,
        int,
        bool,
        tuple,
        type(None),
    }


PROTOCOL: dict[str, Callable[[], str]] = {
    "messages.md": messages_page,
    "events.md": events_page,
    "codes.md": codes_page,
    "limits.md": limits_page,
}


def pages() -> dict[str, str]:
    """Every generated page, by its path under docs/."""
    sys.path.insert(0, str(DOCS.parent))  # so that a script finds the one beside it by its full name
    reference = importlib.import_module("scripts.reference")
    found = {f"protocol/{name}": page() for name, page in PROTOCOL.items()}
    return {**found, **{f"reference/{name}": text for name, text in reference.pages().items()}}


def main() -> int:
    every = pages()
    stale = [name for name, text in every.items() if not _same(DOCS / name, text)]
    if "--check" in sys.argv:
        print("\n".join(f"docs/{name} is stale: run scripts/docs.py" for name in stale), end="")
        return 1 if stale else 0
    for name in stale:
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(every[name])
    return 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
