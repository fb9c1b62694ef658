"""A JSON schema of `params.yaml`, with which editors complete names and mark errors as you type.

    # yaml-language-server: $schema=.tapeline/params.schema.json

as the first line of `params.yaml` is what most editors look for. Each pipeline's `params` follow its recipe's
declaration.
"""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.config.recipe_params import declared_params
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

FILE = "params.schema.json"
LINE = f"# yaml-language-server: $schema=.tapeline/{FILE}"


def schema(folder: Path, params: Params | None = None) -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) for a project's folder; without `params`, the one for any project."""
    general = Params.model_json_schema(by_alias=True)
    own: dict[str, Any] = {}
    for name, pipeline in params.pipelines.items() if params else ():
        try:
            declared = declared_params(folder / pipeline.recipe)
        except InputError:  # the recipe is missing or incomplete
            continue
        if declared is not None:
            entry = deepcopy(general["$defs"]["Pipeline"])
            inner = declared.model_json_schema(by_alias=True, ref_template=f"#/$defs/{name}.{{model}}")
            general["$defs"] |= {f"{name}.{key}": value for key, value in inner.pop("$defs", {}).items()}
            entry["properties"]["params"] = inner
            own[name] = entry
    general["properties"]["pipelines"]["properties"] = own
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **general}


def write(project: Project) -> Path:
    """Write the schema to this working tree's state folder, and return its path."""
    known, _ = Params.sound(project.folder)
    path = project.local / FILE
    files.write_text(path, json.dumps(schema(project.folder, known), indent=2, sort_keys=True) + "\n")
    return path
