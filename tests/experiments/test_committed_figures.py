"""Pictures that are committed, and the results beside them."""

from pathlib import Path

from experiments.figures import drawn

STUDIES = Path(__file__).parents[2] / "experiments"


def test_committed_pictures_are_what_their_results_say() -> None:
    """Where this fails: `python -m experiments figures`."""
    pictures = dict(drawn(STUDIES))
    assert len(pictures) > 30
    assert [path for path, picture in pictures.items() if path.read_text("utf-8") != picture] == []
