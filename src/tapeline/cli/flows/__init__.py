"""The commands that run flows, through Prefect if there is a server, and those that serve and deploy them.

Each is imported when it is called: they take a second, and Prefect seconds.
"""

from importlib import import_module

COMMANDS = {
    "run": (
        "tapeline.cli.flows.training",
        "bring a pipeline up to date, in place or in a worktree; as a Prefect flow if there is a server",
    ),
    "sweep": ("tapeline.cli.flows.sweep", "search over a pipeline's parameters with isolated runs"),
    "promote": (
        "tapeline.cli.flows.promotion",
        "register, gate and promote a model as a Prefect flow, with a person's approval where required",
    ),
    "infer": (
        "tapeline.cli.flows.inference",
        "run a registered model on files; as a Prefect flow if there is a server",
    ),
    "serve": ("tapeline.orchestration.serve", "run the deployments in prefect.yaml on this machine, until Ctrl-C"),
    "deploy": ("tapeline.orchestration.deploy", "update the server at PREFECT_API_URL to match prefect.yaml"),
}
"""Command → the module whose `main` takes its arguments, and its line in `tapeline --help`."""


def call(name: str, arguments: list[str]) -> int:
    """Run one of `COMMANDS` and return its exit status."""
    status: int = import_module(COMMANDS[name][0]).main(arguments)
    return status
