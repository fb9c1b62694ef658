"""Call the stages after training as the command line does."""

import json

from trainings import Run

from tapeline.config.export import ExportSettings
from tapeline.config.validate import ValidateSettings
from tapeline.export.stage import export
from tapeline.validate.stage import validate


class Chain:
    """The stages after training, on one recipe and its weights."""

    def __init__(self, run: Run) -> None:
        self.run, self.folder = run, run.folder
        self.validated, self.model = self.folder / "validate", self.folder / "model"

    def validate(self, **thresholds):
        settings = ValidateSettings.model_validate_json(json.dumps({"thresholds": thresholds}))
        validate(
            recipe=self.run.recipe,
            params=self.run.params,
            settings=settings,
            data=self.run.dataset,
            trained=self.run.out,
            out=self.validated,
        )
        return json.loads((self.validated / "metrics.json").read_text())

    def export(self, **settings):
        export(
            name="blobs",
            recipe=self.run.recipe,
            params=self.run.params,
            settings=ExportSettings(**settings),
            data=self.run.dataset,
            trained=self.run.out,
            validated=self.validated,
            out=self.model,
        )
        return json.loads((self.model / "model.json").read_text())
