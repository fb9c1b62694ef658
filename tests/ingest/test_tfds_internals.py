"""Each undocumented name of TFDS that Tapeline uses is still there: a failure says what an upgrade took away."""

from importlib.metadata import version

import pytest

pytestmark = pytest.mark.usefixtures("tf")

NAMES = [
    ("core.registered.skip_registration", lambda tfds: tfds.core.registered.skip_registration),
    ("core.DatasetBuilder.pkg_dir_path", lambda tfds: tfds.core.DatasetBuilder.pkg_dir_path),
    ("core.DatasetBuilder._make_download_manager", lambda tfds: tfds.core.DatasetBuilder._make_download_manager),
    ("core.DatasetBuilder._log_download_bytes", lambda tfds: tfds.core.DatasetBuilder._log_download_bytes),
    ("core.DatasetBuilder._log_download_done", lambda tfds: tfds.core.DatasetBuilder._log_download_done),
    ("download.DownloadManager._download", lambda tfds: tfds.download.DownloadManager._download),
]


@pytest.mark.parametrize(("name", "get"), NAMES, ids=[name for name, _ in NAMES])
def test_a_name_is_there(name, get):
    import tensorflow_datasets as tfds

    try:
        get(tfds)
    except AttributeError:
        said = f"TFDS {version('tensorflow-datasets')} no longer has {name}"
        pytest.fail(f"{said}: adapt src/tapeline/ingest/tfds_internals.py")


def test_a_resource_has_an_address():
    import tensorflow_datasets as tfds

    assert tfds.download.Resource(url="http://example.org/x").url == "http://example.org/x"
