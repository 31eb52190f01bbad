"""What these pages ask that the action space lacks: a table of results says so beside its mean.

The actions are the paper's (Best-of-Q, Fig. 7) and Agent Q's: clicks and texts, no dragging, no hovering, no keys.
"""

from collections.abc import Mapping

BEYOND_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "dragging": (
        "drag-box",
        "drag-circle",
        "drag-cube",
        "drag-items",
        "drag-items-grid",
        "drag-shapes",
        "drag-shapes-2",
        "drag-single-shape",
        "drag-sort-numbers",
        "resize-textarea",
    ),
    "drawing": ("draw-circle", "draw-line"),
    "dragging or arrow keys": ("form-sequence", "use-slider", "use-slider-2"),
    "hovering": ("chase-circle", "hover-shape"),
    "selecting text": ("highlight-text", "highlight-text-2"),
    "scrolling inside an element": ("scroll-text-2", "sign-agreement"),
    "keys, one by one": ("terminal",),
    "quickness": ("moving-items", "simon-says"),
}
"""By what is lacking. Tasks that can be done in part (some problems of text-editor, say) are not here."""
