"""The picture of the ratios."""

from benchmarks.chart import draw


def test_a_picture_is_drawn_and_none_without_measurements(tmp_path):
    draw([], tmp_path / "nothing.png")
    assert not (tmp_path / "nothing.png").exists()
    draw(
        [{"title": "MLP", "ratios": {"JAX": 1.1, "Keras fit": 2.5}}, {"title": "CNN", "ratios": {"PyTorch": 0.9}}],
        tmp_path / "r.png",
    )
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
