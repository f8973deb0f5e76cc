"""`bus recover`: a person has looked, and confirms that the old use has ended."""

import os

import typer

from interlock.adapters.cli.app import Given


def command(
    resource: str = typer.Argument(..., metavar="RESOURCE|LAUNCH"),
    confirm: str = typer.Option("", "--confirm", metavar="CODE", help="The code printed with the evidence."),
) -> int:
    """Show why a resource, or a command of bus ps, is in doubt; with the code printed there, set it free."""
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.options import say_err, say_out
    from interlock.adapters.cli.output import one_line, say_json
    from interlock.adapters.cli.person import must_be_a_person
    from interlock.adapters.launch_tree import RUN

    if confirm:
        must_be_a_person("recovering is for a person at a terminal, who has looked: run it in one")
    launch = RUN.fullmatch(resource) is not None  # as bus ps names it; no resource is called so
    if launch:
        answer = ask_bus("RECOVER_LAUNCH", launch=resource, code=confirm)
    else:
        answer = ask_bus("RECOVER", resource=resource, code=confirm)
    if answer["type"] == "EVIDENCE":
        if Given.options.json:
            say_json({key: value for key, value in answer.items() if key != "type"})
        else:
            if confirm:
                say_err(f"bus: {confirm} is no code of this evidence, which may have changed: look again")
            for why in answer["why"]:
                say_out(f"{resource}: {one_line(why)}")
            if launch:
                _show_command_line(resource)
            say_out("look whether anything else of it still runs; a server that is kept does no harm; if nothing does:")
            say_out(f"  bus recover {resource} --confirm {answer['code']}")
        return 75
    rest = answer.get("note", "")
    if answer["type"] == "TEXT":  # a command: what it ran under is named
        if Given.options.json:
            say_json({"recovered": resource, "said": answer["text"]})
        else:
            say_out(one_line(answer["text"]))
        return 0
    if Given.options.json:
        say_json({"recovered": resource, **({"rest": rest} if rest else {})})
    else:
        say_out(f"RECOVERED {resource}{f', {one_line(rest)}' if rest else ''}")
    return 75 if rest else 0


def _show_command_line(launch: str) -> None:
    """The whole of it, as its keeper noted it: to a person alone, for its arguments may hold secrets."""
    import shlex

    from interlock.adapters.cli.options import say_out
    from interlock.adapters.cli.output import one_line
    from interlock.adapters.launch_result import read_result
    from interlock.adapters.paths import find_home

    if not (os.isatty(0) and os.isatty(1)):
        say_out(f"{launch}: its whole command line is shown to a person at a terminal")
        return
    result = read_result(find_home(Given.options.home).launches / f"{launch}.jsonl")
    if result.argv:
        say_out(f"{launch}: {one_line(shlex.join(result.argv))} in {one_line(result.cwd)}")
