"""A Git and DVC repository with this project's ignore files, for data added with `dvc add`."""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from dvc.repo import Repo
from repositories import git

ROOT = Path(__file__).resolve().parents[2]


class RawData:
    """A folder with this project's `.gitignore`, `.dvcignore` and DVC settings; DVC is called in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.email", "test@example.org")
        self.git("config", "user.name", "Test")
        subprocess.run([sys.executable, "-P", "-m", "dvc", "init", "--quiet"], cwd=folder, check=True)
        for name in (".gitignore", ".dvcignore", ".dvc/config"):
            shutil.copy(ROOT / name, folder / name)
        self.commit()

    def write(self, path: str, text: str) -> Path:
        """Write a file, by its path in the repository."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def dvc(self, verb: str, *arguments: object, **options: object) -> object:
        """Call DVC as its command line does, in a newly opened repository."""
        with closing(Repo(str(self.folder))) as repo:
            return getattr(repo, verb)(*arguments, **options)

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)

    def commit(self) -> None:
        """Commit everything that is not ignored."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "state")
