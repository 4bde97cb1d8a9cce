"""The command ``bigdag``: words to calls, nothing else; one file a word."""

from bigdag.cli import evaluate, experiment, fit, methods, show, simulate
from bigdag.cli.group import app

__all__ = ["app", "evaluate", "experiment", "fit", "main", "methods", "show", "simulate"]

app.add_typer(experiment.app)


def main() -> None:
    """Run the command."""
    app()
