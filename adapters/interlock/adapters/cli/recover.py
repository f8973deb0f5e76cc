"""`bus recover`: a person has looked, and confirms that the old use has ended."""

import typer

from interlock.adapters.cli.app import Given


def command(
    resource: str = typer.Argument(...),
    confirm: str = typer.Option("", "--confirm", metavar="CODE", help="The code printed with the evidence."),
) -> int:
    """Show why a resource is in doubt; with the code printed there, set it free."""
    from interlock.adapters.cli.asking import ask_bus
    from interlock.adapters.cli.options import say_err, say_out
    from interlock.adapters.cli.output import one_line, say_json
    from interlock.adapters.cli.person import must_be_a_person

    if confirm:
        must_be_a_person("recovering is for a person at a terminal, who has looked: run it in one")
    answer = ask_bus("RECOVER", resource=resource, code=confirm)
    if answer["type"] == "EVIDENCE":
        if Given.options.json:
            say_json({key: value for key, value in answer.items() if key != "type"})
        else:
            if confirm:
                say_err(f"bus: {confirm} is no code of this evidence, which may have changed: look again")
            for why in answer["why"]:
                say_out(f"{resource}: {one_line(why)}")
            say_out("look whether anything else of it still runs; a server that is kept does no harm; if nothing does:")
            say_out(f"  bus recover {resource} --confirm {answer['code']}")
        return 75
    rest = answer.get("note", "")
    if Given.options.json:
        say_json({"recovered": resource, **({"rest": rest} if rest else {})})
    else:
        say_out(f"RECOVERED {resource}{f', {one_line(rest)}' if rest else ''}")
    return 75 if rest else 0
