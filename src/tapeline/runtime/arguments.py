"""Arguments that are refused in one line, with the nearest name for one that there is not."""

import argparse
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

CHOICE = re.compile(
    r"argument (?P<what>\S+): invalid choice: (?P<quote>['\"])(?P<given>.*)(?P=quote) \(choose from (?P<all>.*)\)"
)


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose refusal is one line. Its subcommands have parsers of the same kind."""

    def parse_known_args(  # type: ignore[override]  # the base class has overloads by the type of the namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parse as the base class does, but refuse what the command does not take here, where its options are known."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            options = re.findall(r"--[\w-]+", self.format_usage())
            hint = _nearest(name, options) if name.startswith("-") else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """End the process with status 2 and one line."""
        if wrong := CHOICE.fullmatch(message):
            names = re.findall(r"[\w-]+", wrong["all"])
            hint = _nearest(wrong["given"], names) or f"; there are: {', '.join(names)}"
            message = f"{wrong['what']} is {wrong['given']!r}{hint}"
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` says more)\n")


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
