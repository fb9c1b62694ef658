"""What is proposed for a folder of images is what ingest reads, of linked folders too and without hidden names."""

import io
import struct
import zlib

import pictures
import pytest
from PIL import Image
from proposals import ingested

from tapeline.runtime.errors import InputError
from tapeline.scaffold.images import listed, propose


@pytest.fixture
def pets(tmp_path):
    return pictures.pets(tmp_path / "pets")


def huge():
    """Return a PNG file that says it has 900 megapixels."""
    head = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)
    file = io.BytesIO()
    Image.new("L", (1, 1)).save(file, "png")
    whole = file.getvalue()
    chunk = b"IHDR" + head
    return whole[:12] + chunk + struct.pack(">I", zlib.crc32(chunk)) + whole[33:]


def test_a_proposal_goes_through_ingest(tmp_path, pets):
    proposal = ingested(propose, tmp_path, pets)
    assert proposal.dataset["validation"] == 0.15
    assert proposal.train["batch_size"] == 22  # training takes no more than there are
    assert proposal.said == ("classifies images into 2 classes, at 20×20 pixels",)


def test_names_that_begin_with_a_dot_are_left_out_as_by_ingest(tmp_path, pets):
    (pets / "train/.ipynb_checkpoints").mkdir()
    (pets / "train/.ipynb_checkpoints/a.png").write_text("x")
    (pets / "train/cat/.DS_Store").write_text("x")
    (pets / ".cache").mkdir()
    proposal = ingested(propose, tmp_path, pets)
    assert proposal.said == (
        "classifies images into 2 classes, at 20×20 pixels",
        "ignored, as in ingest, since their names begin with a dot: 3 (.cache, train/.ipynb_checkpoints, train/cat/.DS_Store)",
    )
    assert len(listed(pets)) == 28


def test_folders_that_are_links_are_listed(tmp_path, pets):
    (pets / "train/cat").rename(tmp_path / "elsewhere")
    (pets / "train/cat").symlink_to(tmp_path / "elsewhere")
    assert len(listed(pets)) == 28
    assert ingested(propose, tmp_path, pets).said[0].startswith("classifies images into 2 classes")


def test_a_folder_with_a_split_called_validation_is_cut_no_other(tmp_path, pets):
    (pets / "validation").symlink_to(pets / "test")
    assert "validation" not in ingested(propose, tmp_path, pets).dataset


def test_too_few_images_for_a_validation_split_have_none(tmp_path, pets):
    for number in range(4, 24):
        (pets / "train" / ("cat", "dog")[number % 2] / f"train{number}.png").unlink()
    proposal = ingested(propose, tmp_path, pets)
    assert "validation" not in proposal.dataset
    assert proposal.said[1] == "no validation split: 4 examples are too few"


@pytest.mark.parametrize(
    ("place", "content", "said"),
    [
        ("train/cat/a.png", huge(), "train/cat/a.png is not an image that can be decoded"),
        ("train/dog/z.png", b"x", "pets/train/dog/z.png is not an image that can be decoded"),
        ("train/cat/more/a.png", b"x", "pets/train/cat/more is a folder where images are expected"),
        ("training/cat/a.png", b"x", "has a split 'training': name splits train, val"),
    ],
)
def test_what_ingest_would_refuse_is_refused(tmp_path, pets, place, content, said):
    (pets / place).parent.mkdir(parents=True, exist_ok=True)
    (pets / place).write_bytes(content)
    with pytest.raises(InputError) as refused:
        propose(pets, "pets", tmp_path)
    assert said in str(refused.value)


def test_a_link_in_a_circle_is_refused(tmp_path, pets):
    (pets / "train/cat/again").symlink_to(pets / "train")
    with pytest.raises(InputError, match="is a folder where images are expected"):
        propose(pets, "pets", tmp_path)
