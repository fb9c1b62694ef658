"""The settings of `dvc config`, in folders of any name."""

import pytest
from repositories import Repository
from undocumented import gone

from tapeline.repository.dvc.exceptions import NotDvcRepoError
from tapeline.repository.dvc.settings import Settings, merged

# DVC itself uses what pygtrie is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")


@pytest.mark.parametrize("name", ["made", "größe 写"])
def test_settings_are_read_and_written(tmp_path, name):
    made = Repository(tmp_path / name)
    made.dvc("remote", "add", "--default", "store", str(tmp_path / "store"))
    settings = Settings.around(made.folder / "data")
    assert (settings.remotes, settings.default_remote) == (["store"], "store")
    assert settings.cache == str(made.folder / ".dvc" / "cache")
    assert settings.level("repo")["remote"]["store"]["url"] == str(tmp_path / "store")
    with settings.edit_local() as local:
        merged(local, {"cache": {"dir": str(made.folder / "cache")}})
    assert Settings.around(made.folder).cache == str(made.folder / "cache")
    assert made.dvc("cache", "dir").strip() == str(made.folder / "cache"), gone("Config._save_config")
    with pytest.raises(NotDvcRepoError):
        Settings.around(tmp_path)


def test_what_may_hold_a_password_is_for_this_user_alone(tmp_path):
    made = Repository(tmp_path / "made")
    path = made.folder / ".dvc" / "config.local"
    path.write_text("")
    path.chmod(0o644)
    with Settings(made.folder / ".dvc").edit_local() as local:
        merged(local, {"remote": {"store": {"url": "https://example.org", "password": "secret"}}})
    assert "password = secret" in path.read_text() and path.stat().st_mode & 0o777 == 0o600
