"""A proposal of `init` taken through ingest."""

from tapeline.config.params import Params, checked
from tapeline.ingest.stage import ingest


def ingested(propose, folder, path):
    """Return the proposal for a table or a folder of images, after ingest has taken it."""
    proposal = propose(path, path.name, folder)
    settings = checked(Params, {"datasets": {proposal.name: proposal.dataset}, "pipelines": {}}, where="here")
    out = folder / "data" / proposal.name
    ingest(proposal.name, settings.dataset(proposal.name), project=folder, out=out, work=folder / "work")
    assert (out / "dataset.json").is_file()
    return proposal
