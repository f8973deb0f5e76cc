"""The reference pages that follow from the code: the verbs with their options, the keys of bus.toml, a module's names.

A key, an option or a name that the code has and does not explain is an error here: it is explained where it stands.
"""

import functools
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import typer.main

from interlock.adapters.cli import app, exits
from interlock.coordinator import config, toml_values
from interlock.protocol import definition
from interlock.protocol.durations import format_duration
from interlock.protocol.limits import NEAREST_NAMES_MAX

NOTE = "<!-- Made by scripts/docs.py from the code: change it there. -->\n\n"
NO_KEY = "q" * 8 * NEAREST_NAMES_MAX  # a key that is near to no other: the answer then names all that are known


@functools.cache
def verbs() -> dict[str, Any]:
    """Every verb of `bus`, as typer has it; "" is `bus` itself."""
    group = typer.main.get_command(app.build([*app.EVERYDAY, *app.OTHERS]))
    return {"": group, **typing_commands(group)}


def typing_commands(group: Any) -> dict[str, Any]:
    """A group's commands, and theirs: `config check` is one verb."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        found[name] = command
        if hasattr(command, "commands"):
            found |= {f"{name} {each}": below for each, below in typing_commands(command).items()}
    return found


def commands_page() -> str:
    """Every verb: what it does, how it is called, its options, its exit codes."""
    every = verbs()
    parts = [
        NOTE + "# Commands\n\nEvery verb of `bus`, as `bus help VERB` shows it. The everyday ones come first.\n\n"
        "| verb | |\n|---|---|\n"
        + "\n".join(
            f"| [`bus {verb}`](#bus-{verb}) | {text} |" for verb, text in {**app.EVERYDAY, **app.OTHERS}.items()
        ),
        "\n## Options of every verb\n\nThey may stand anywhere before a `--`.\n",
        _parameters(every[""]),
        f"## Exit codes of every verb\n\n0 done. {exits.EVERYWHERE}. A refusal has the code of its row in "
        "[Codes](../protocol/codes.md). A closed pipe ends a command quietly with 141.\n",
    ]
    for verb, command in every.items():
        if verb:
            parts.append(_verb(verb, command))
    return "\n".join(parts)


def _verb(verb: str, command: Any) -> str:
    about = inspect.cleandoc(command.help or "").partition("\n\n")[0].replace("\n", " ")
    lines = [f"## bus {verb}\n", f"{about}\n", f"```console\n$ bus {usage(verb, command)}\n```\n"]
    lines.append(_parameters(command))
    if verb in exits.MEANINGS:
        lines.append(f"Exit codes: {exits.MEANINGS[verb]}.\n")
    return "\n".join(line for line in lines if line)


def usage(verb: str, command: Any) -> str:
    """How a verb is called, on one line."""
    words = [verb]
    if any(each.param_type_name == "option" for each in _shown(command)):
        words.append("[OPTIONS]")
    for each in command.params:
        if each.param_type_name == "argument":
            name = each.metavar or each.name.upper()
            many = "" if each.nargs == 1 or "…" in name else "…"
            words.append(f"{name}{many}" if each.required else f"[{name}{many}]")
    return " ".join(words)


def _parameters(command: Any) -> str:
    rows = [f"| {_how(each)} | {_text(each)} |" for each in _shown(command)]
    return "| | |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""


def _shown(command: Any) -> list[Any]:
    return [
        each
        for each in command.params
        if not getattr(each, "hidden", False) and (each.param_type_name == "option" or getattr(each, "help", None))
    ]


def _how(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    words = ", ".join(f"`{word}`" for word in parameter.opts)
    if getattr(parameter, "is_flag", False):
        return words
    value = parameter.metavar or {"integer": "N", "text": "TEXT"}.get(str(getattr(parameter.type, "name", "")), "VALUE")
    return f"{words} `{value}`"


def _text(parameter: Any) -> str:
    text = str(parameter.help or "")
    return text.replace("|", "\\|")


def configuration_page() -> str:
    """Every key of bus.toml with its default and its meaning."""
    parts = [
        NOTE + '# Keys of bus.toml\n\nA duration is written `"200ms"`, `"30s"`, `"3m"` or `"1h30m"`.\n\n## `[bus]`\n',
        _table(keys("bus"), _meanings(config.Config), {**_defaults(config.Config), "inbox_files": '`"used"`'}),
        "\n## `[resources.NAME]`\n\nNAME has at most 64 letters, digits, `_`, `.` or `-`, "
        "and begins with a letter or a digit.\n",
    ]
    profile = _table(keys("profiles.build"), _meanings(config.Config), _defaults(config.Config) | {"commands": "none"})
    every = {kind: keys(kind.value) for kind in definition.Kind}
    common = [key for key in keys(definition.Kind.LOCK) if all(key in known for known in every.values())]
    parts += ["### Of every kind\n", _table(common, *_explained(""))]
    for kind, known in every.items():
        own = [key for key in known if key not in common]
        if own:
            parts += [f'\n### Of `kind = "{kind.value}"`\n', _table(own, *_explained(kind.value))]
    parts += ["\n## `[profiles.build]`\n\nIn the home's file, and in a repository's that is trusted.\n", profile]
    return "\n".join(parts).replace("\n\n\n", "\n\n")


def _explained(kind: str) -> tuple[dict[str, str], dict[str, str]]:
    """Meanings and defaults of a resource's keys; what the kind's own struct says of a key comes first."""
    structs = [each for _, each in inspect.getmembers(definition, _is_struct)]
    structs.sort(key=lambda each: (each.__name__.lower() == f"{kind}definition", each is definition.Definition))
    meanings = {"state_file": _sentence(_meanings(config.Config)["state_file"].partition(": ")[2])}
    defaults: dict[str, str] = {}
    for struct in structs:
        meanings = {
            **_meanings(struct),
            **{key: text for key, text in meanings.items() if key not in _meanings(struct)},
        }
        defaults |= _defaults(struct)
    own = {"kind": '"lock"; "server" where there is a `start`', "units": "one", "state_file": "none"}
    return meanings, {**defaults, **own}


def keys(where: str) -> list[str]:
    """The keys that the parser knows in `[bus]`, or in a resource of that kind, as it says itself."""
    head = f"[{where}]" if where in {"bus", "profiles.build"} else f'[resources.x]\nkind = "{where}"\n'
    try:
        config.parse_config(f"{head}\n{NO_KEY} = 1\n", "bus.toml")
    except toml_values.ConfigError as error:
        found = re.search(r"known here: (.+)$", str(error))
        if found:
            return found[1].split(", ")
    raise AssertionError(
        f"the parser does not say which keys are known in {where}: mend keys() in scripts/reference.py"
    )


def _table(known: list[str], meanings: dict[str, str], defaults: dict[str, str]) -> str:
    unsaid = [key for key in known if key not in meanings]
    assert not unsaid, f"say what {unsaid} mean: in Args of their struct's docstring, in definition.py or config.py"
    order = [*meanings]
    known = sorted(known, key=order.index)
    rows = [f"| `{key}` | {defaults.get(key, '')} | {meanings[key]} |" for key in known]
    return "| key | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _is_struct(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, msgspec.Struct) and thing is not msgspec.Struct


def _meanings(struct: type) -> dict[str, str]:
    """What the Args of a docstring say, by the key of bus.toml."""
    args = (inspect.getdoc(struct) or "").partition("Args:\n")[2]
    found = re.findall(r"^    ([a-z_]+): (.+(?:\n {6,}.+)*)", args, re.MULTILINE)
    return {name.removesuffix("_ms"): _sentence(re.sub(r"\s+", " ", text)) for name, text in found}


def _sentence(text: str) -> str:
    return (text[0].upper() + text[1:]).replace("|", "\\|")


def _defaults(struct: type) -> dict[str, str]:
    found = {}
    for field in msgspec.structs.fields(struct):
        value = field.default
        timed = field.name.endswith("_ms") or (struct is config.Config and isinstance(value, int) and value > 1000)
        if timed and isinstance(value, int):
            text = f'`"{format_duration(value)}"`'
        elif isinstance(value, bool):
            text = f"`{str(value).lower()}`"
        elif isinstance(value, str) and value:
            text = f'`"{value}"`'
        else:
            text = "none"
        found[field.name.removesuffix("_ms")] = "must be given" if field.required else text
    return found


def module_page(name: str, title: str, about: str) -> str:
    """A page of a module's public names: classes with their public methods, functions, each with its docstring."""
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [each for each in vars(module) if not each.startswith("_")]
    things = [(each, getattr(module, each)) for each in names]
    own = [(each, thing) for each, thing in things if getattr(thing, "__module__", "").startswith("interlock.")]
    own.sort(key=lambda each: (each[0].startswith("Blocking"), each[0] != "Bus", each[0]))
    head = NOTE + f"# {title}\n\n{about}\n"
    return "\n".join([head, *(part for each, thing in own for part in _thing(each, thing))])


def _thing(name: str, thing: Any) -> Iterator[str]:
    assert inspect.getdoc(thing), f"{name} is public and has no docstring"
    yield f"## {name}\n\n```python\n{_signature(name, thing)}\n```\n\n{_doc(thing)}\n"
    if not inspect.isclass(thing):
        return
    for method, member in vars(thing).items():
        about = inspect.getdoc(member) if callable(member) or isinstance(member, property) else None
        if method.startswith("_") or not about:
            continue
        signed = f"{method}" if isinstance(member, property) else _signature(method, member)
        yield f"### {name}.{method}\n\n```python\n{signed}\n```\n\n{_doc(member)}\n"


def _signature(name: str, thing: Callable[..., Any]) -> str:
    before = "class " if inspect.isclass(thing) else "async def " if inspect.iscoroutinefunction(thing) else "def "
    try:
        signed = str(inspect.signature(thing))
    except (TypeError, ValueError):
        signed = "(…)"
    signed = re.sub(r"= '([^']*)'", r'= "\1"', signed)  # a default is a text, an annotation is none
    signed = signed.replace("'", "").replace(" -> None", "")
    signed = re.sub(r"\(self(, )?", "(", signed)
    plain = re.sub(r"(?:[a-z_]+[.])+([A-Z])", r"\1", signed)
    if inspect.isclass(thing) and re.search(r": (Holdings|BlockingBus|Tail)\b", plain):  # the bus makes it, no program
        plain = ""
    return f"{before}{name}{plain}"


def _doc(thing: Any) -> str:
    """A docstring as Markdown: its Args, Returns and Raises become lists."""
    if inspect.isclass(thing) and not vars(thing).get("__doc__"):  # what msgspec says of structs is no help
        assert issubclass(thing, msgspec.Struct), f"{thing.__name__} is public and has no docstring"
        return f"The answer {thing.__struct_config__.tag} of the [protocol](../protocol/messages.md)."
    text = re.sub(r"\n {8,}", " ", inspect.getdoc(thing) or "")
    text = re.sub(r"^(Args|Returns|Raises|Yields):\n", r"**\1**\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^ {4}(\w[\w.]*): ", r"- `\1`: ", text, flags=re.MULTILINE)
    return re.sub(r"(\*\*\w+\*\*\n\n) {4}", r"\1", text).strip()


def pages() -> dict[str, str]:
    """Every page of docs/reference, by its file name."""
    found = {"commands.md": commands_page(), "configuration.md": configuration_page()}
    if importlib.util.find_spec("interlock.client"):
        about = "`from interlock.client import Bus, BlockingBus`. With examples: [the guide](../guide/python.md)."
        found["python.md"] = module_page("interlock.client", "Python", about)
    return found
