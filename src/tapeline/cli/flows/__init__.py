"""The commands that run flows, through Prefect where there is a server, and those that serve and deploy them.

Each is imported when it is called: they take a second, and Prefect seconds.
"""

from importlib import import_module

COMMANDS = {
    "run": (
        "tapeline.cli.flows.training",
        "bring a pipeline up to date, here or in a worktree; a Prefect flow where there is a server",
    ),
    "sweep": ("tapeline.cli.flows.sweep", "search over a pipeline's parameters with isolated runs"),
    "promote": (
        "tapeline.cli.flows.promotion",
        "register, judge and promote a model, with a person's approval where needed, as a Prefect flow",
    ),
    "infer": (
        "tapeline.cli.flows.inference",
        "predict for files with a registered model; a Prefect flow where there is a server",
    ),
    "serve": ("tapeline.orchestration.serve", "run the deployments in prefect.yaml on this machine, until Ctrl-C"),
    "deploy": ("tapeline.orchestration.deploy", "update the server at PREFECT_API_URL to match prefect.yaml"),
}
"""Name → the module whose `main` takes the arguments behind it, and what `tapeline --help` says."""


def call(name: str, arguments: list[str]) -> int:
    """Run one of `COMMANDS` and return its exit status."""
    status: int = import_module(COMMANDS[name][0]).main(arguments)
    return status
