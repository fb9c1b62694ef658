"""A place of its own in which stages are rebuilt: a clone of HEAD with the project's cache, in today's forms."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tapeline.config.project import Project
from tapeline.repository import raw_data
from tapeline.repository.dvc_errors import in_one_line
from tapeline.repository.rebuilding import clone, dvc
from tapeline.runtime import files
from tapeline.runtime.errors import RunError

NAME = "place-"


@contextmanager
def cloned(project: Project, work: Path, *, texts: Mapping[str, str], removed: Iterable[str]) -> Iterator[Path]:
    """Yield the project's folder in a clone below `work`, removed afterwards; one that a kill left goes first.

    The recorded outputs that the cache has are checked out; then `texts` (by path in the project) are written and
    `removed` deleted there. What stages make is in the project's cache, and nothing else of the project is touched.
    """
    for left in work.glob(f"{NAME}*"):
        shutil.rmtree(left, ignore_errors=True)
    from tapeline.repository.dvc.repository import Dvc

    place = Path(tempfile.mkdtemp(prefix=NAME, dir=work))
    try:
        folder = clone(project, place)
        with in_one_line(), closing(Dvc(folder)) as opened, opened.locked():
            raw_data.check_cached(opened.stages())
        with suppress(RunError):  # what is missing then is named with the stage that needs it
            dvc(folder, "checkout", "--quiet", "--allow-missing")
        for path, text in texts.items():
            files.write_text(folder / path, text)
        for path in removed:
            (folder / path).unlink(missing_ok=True)
        yield folder
    finally:
        shutil.rmtree(place, ignore_errors=True)
