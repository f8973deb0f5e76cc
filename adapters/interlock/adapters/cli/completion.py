"""`bus completion`: what a shell needs to complete `bus`, printed or put where the shell looks for it."""

import os
from pathlib import Path

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out
from interlock.adapters.own_files import NotOurs, mark, remove_ours, write_ours

MARK = mark("bus completion --install", "bus completion --uninstall")

BASH = f"""# {MARK}
_bus() {{
    local line found
    COMPREPLY=()
    found=$("$1" __complete "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null) || return 0
    case $found in
        :files) compopt -o default; return ;;
        :dirs) compopt -o dirnames; return ;;
        :command)
            local at
            for ((at = 1; at < COMP_CWORD; at++)); do [[ ${{COMP_WORDS[at]}} == -- ]] && break; done
            if declare -F _command_offset >/dev/null; then _command_offset $((at + 1)); else compopt -o default; fi
            return ;;
    esac
    while IFS= read -r line; do
        [[ -n $line ]] && COMPREPLY+=("${{line%%$'\\t'*}}")
    done <<<"$found"
}}
complete -F _bus bus
"""

ZSH = f"""#compdef bus
# {MARK}
_bus() {{
    local -a found offers
    local line at
    found=("${{(@f)$("${{words[1]}}" __complete "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}")
    case ${{found[1]}} in
        "") return 1 ;;
        :files) _files; return ;;
        :dirs) _files -/; return ;;
        :command) at=${{words[(i)--]}}; shift $at words; (( CURRENT -= at )); _normal; return ;;
    esac
    for line in "${{found[@]}}"; do
        offers+=("${{${{line%%$'\\t'*}}//:/\\\\:}}:${{line#*$'\\t'}}")
    done
    _describe bus offers
}}
if [[ ${{funcstack[1]}} == _bus ]]; then _bus "$@"; else compdef _bus bus; fi
"""

FISH = f"""# {MARK}
function __bus_complete
    set -l line (commandline -opc) (commandline -ct)
    for offer in ($line[1] __complete $line[2..-1] 2>/dev/null)
        switch $offer
            case ':files' ':command'
                __fish_complete_path (commandline -ct)
            case ':dirs'
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $offer
        end
    end
end
complete -c bus -f -a '(__bus_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def command(
    shell: str = typer.Argument("", metavar="[bash|zsh|fish]", help="Left out: the one in $SHELL."),
    install: bool = typer.Option(False, "--install", help="Put it where the shell looks for it."),
    uninstall: bool = typer.Option(False, "--uninstall", help="Take it away again, for every shell."),
) -> int:
    """Print what makes a shell complete bus: verbs, options, resources, agents. Once: source <(bus completion bash)."""
    from interlock.adapters.cli.output import say_json

    if uninstall:
        removed = [str(path) for path in remove()]
        if Given.options.json:
            say_json({"removed": removed})
        else:
            say_out("\n".join(f"removed: {path}" for path in removed) or "no completion is installed")
        return 0
    shell = shell or os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SCRIPTS:
        raise Failure(64, f"{shell or 'no shell'!r} is not one of bash, zsh, fish: say which: bus completion bash")
    if not install:
        say_out(SCRIPTS[shell].rstrip("\n"))
        return 0
    path = place(shell)
    try:
        write_ours({path: SCRIPTS[shell]})
    except NotOurs as error:
        raise Failure(73, str(error)) from None
    if Given.options.json:
        say_json({"path": str(path)})
        return 0
    say_out(f"wrote: {path}")
    say_out(_hint(shell, path))
    say_out("to undo it: bus completion --uninstall")
    return 0


def place(shell: str) -> Path:
    """Where that shell looks for completions of this user."""
    data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    if shell == "bash":
        own = os.environ.get("BASH_COMPLETION_USER_DIR")
        return (Path(own) if own else data / "bash-completion") / "completions" / "bus"
    if shell == "zsh":
        return data / "zsh" / "site-functions" / "_bus"
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "fish" / "completions" / "bus.fish"


def remove() -> list[Path]:
    """Take away what `--install` wrote, for every shell; what that was."""
    return remove_ours([place(shell) for shell in SCRIPTS])


def installed() -> list[Path]:
    """Where completions are that we wrote."""
    from interlock.adapters.own_files import is_ours

    return [path for path in map(place, SCRIPTS) if is_ours(path)]


def _hint(shell: str, path: Path) -> str:
    if shell == "bash":
        return "new shells have it where bash-completion is; else add to ~/.bashrc: source <(bus completion bash)"
    if shell == "zsh":
        return f"put before compinit into ~/.zshrc, unless it is there: fpath=({path.parent} $fpath)"
    return "new shells have it"
