"""`ogsql completion`: completion scripts for shells."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script for a shell.

    \b
    bash: eval "$(ogsql completion bash)"          in ~/.bashrc
    zsh:  eval "$(ogsql completion zsh)"           in ~/.zshrc
    fish: ogsql completion fish > ~/.config/fish/completions/ogsql.fish
    """  # noqa: D301 (click reads the backspace character as "do not re-wrap")
    from omnigraph_sql.cli.actions import version as about

    return about.completion(click.get_current_context().find_root().command, shell)
