"""One search tree as a picture (Agent Q, 5.1 and Fig. 1): a row for each action, with what search and feedback say."""

from collections.abc import Iterable, Sequence
from math import sqrt

from markupsafe import Markup

from bestofq.core.tree import SearchTree
from bestofq.reports.svg import bar, line, shortened, svg, text
from bestofq.reports.tree_rows import Row, rows, way_taken
from bestofq.search.pairs import NodePair, blended, node_pairs

_WIDTH = 940
_PITCH, _LANE, _LEFT = 24, 20, 16  # px: between rows, between lanes, of the way taken
_ENDING, _N, _VALUE, _PRIOR, _Q, _PAIRS = 510, 552, 606, 668, 690, 806  # right edges; of the last two the left ones
_LETTER = 6.15  # px a letter takes on average
_PAIR_LANES = 6


def search_tree_svg(
    tree: SearchTree,
    *,
    alpha: float = 0.5,
    threshold: float = 0.2,
    at_most: int = 60,
    standalone: bool = True,
) -> Markup:
    """A tree with the visits N, Q̃ by search, Q̂ by feedback and Q of each action (Eq. 10), how branches ended, the way
    taken, and the pairs that Algorithm 1 draws at this α and threshold.

    Large trees are folded to about `at_most` rows; whole labels, thoughts and numbers are in the tooltips.
    """
    pairs = list(node_pairs(tree, alpha=alpha, threshold=threshold))
    paired = {node for pair in pairs for node in (pair.chosen, pair.rejected)}
    drawn = rows(tree, marked=paired, at_most=at_most)
    picture = _Picture(tree, drawn, alpha)
    goal = _lines(tree.task.goal, 120, 3) if standalone else []
    top = 18 * len(goal) + 50
    parts = [text(2, 16 + 18 * number, said, "name") for number, said in enumerate(goal)]
    parts += picture.headings(top - 30)
    parts += [picture.way(top), *picture.edges(top)]
    parts += [picture.row(row, top + _PITCH * number) for number, row in enumerate(drawn)]
    brackets, folded = picture.pairs(pairs, top)
    parts += brackets
    bottom = top + _PITCH * len(drawn) + 4
    parts += _legend(tree, drawn, bottom, shown=len(pairs) - folded, folded=folded)
    return svg(parts, bottom + 30, f"Search tree of {tree.task.id}", standalone, width=_WIDTH)


class _Picture:
    """Rows from `top` on, `_PITCH` apart."""

    def __init__(self, tree: SearchTree, drawn: Sequence[Row], alpha: float) -> None:
        self._tree = tree
        self._rows = drawn
        self._alpha = alpha
        self._way = set(way_taken(tree))

    def headings(self, y: float) -> list[Markup]:
        named = ((_N, "N", "visits"), (_VALUE, "Q̃", "search"), (_PRIOR, "Q̂", "feedback"))
        parts = [text(x, y + 14 * at, said, "end") for x, *words in named for at, said in enumerate(words)]
        parts += [
            text(_Q, y, "Q", "value"),
            text(_Q, y + 14, f"{self._alpha:g} Q̃ + {1 - self._alpha:g} Q̂", ""),
        ]
        parts += [text(_PAIRS - 4, y, "pairs", "value"), text(_PAIRS - 4, y + 14, "chosen over rejected", "")]
        return [*parts, line(0, y + 20, _WIDTH, y + 20, "rule")]

    def way(self, top: float) -> Markup:
        """A wash behind the rows of the way taken."""
        mine = (number for number, row in enumerate(self._rows) if row.lane == 0)
        return Markup("").join(_wash(top + _PITCH * n - 4) for n in mine)

    def edges(self, top: float) -> Iterable[Markup]:
        for number, row in enumerate(self._rows):
            if row.above is None:
                continue
            above = self._rows[row.above]
            x0, x1 = self._x(above), self._x(row)
            y0, y1 = self._y(row.above, top), self._y(number, top)
            style = "edge way" if row.lane == 0 else "edge untried" if row.kind == "untried" else "edge"
            d = f"M{x0} {y0}V{y1}" if x0 == x1 else f"M{x0} {y0}V{y1 - 8}Q{x0} {y1} {x0 + 8} {y1}H{x1}"
            yield Markup('<path d="{}" class="{}" stroke-width="{:.1f}"/>').format(d, style, self._weight(row, 4, 1))

    def row(self, row: Row, top: float) -> Markup:
        """One row: its mark, its words, its numbers; the rest in its tooltip."""
        tree, node, x, y = self._tree, row.node, self._x(row), top + 12
        ending = None if row.kind == "untried" else _ending(tree, row.nodes[-1])
        room = int((_ENDING - x - 14 - (8 * len(ending[0]) if ending else 0)) / _LETTER)
        style = "quiet" if row.kind != "node" else "name strong" if row.lane == 0 else "name"
        parts = [self._mark(row, x, y - 4), text(x + 13, y, shortened(self._words(row), room), style)]
        if ending is not None:
            parts.append(text(_ENDING, y, ending[0], f"end {ending[1]}"))
        if row.kind == "node":
            parts += self._numbers(node, y)
        hit = Markup('<rect x="0" y="{}" width="{}" height="{}" class="hit"/>').format(top - 4, _PAIRS - 8, _PITCH)
        return Markup("<g><title>{}</title>{}{}</g>").format(self._told(row), hit, Markup("").join(parts))

    def pairs(self, pairs: Sequence[NodePair], top: float) -> tuple[list[Markup], int]:
        """A bracket from each chosen row to its rejected one, the clearest first, and how many find no room."""
        at = {row.node: number for number, row in enumerate(self._rows) if row.kind == "node"}
        taken: list[list[tuple[int, int]]] = [[] for _ in range(_PAIR_LANES)]
        parts, folded = [], 0
        margins: dict[int, list[float]] = {}
        for pair in sorted(pairs, key=lambda p: -p.margin):
            if pair.chosen not in at or pair.rejected not in at:
                folded += 1
                continue
            chosen, rejected = at[pair.chosen], at[pair.rejected]
            low, high = sorted((chosen, rejected))
            lane = next((n for n, spans in enumerate(taken) if all(high < a or b < low for a, b in spans)), None)
            if lane is None:
                folded += 1
                continue
            taken[lane].append((low, high))
            margins.setdefault(rejected, []).append(pair.margin)
            x, y0, y1 = _PAIRS + 10 * lane, self._y(chosen, top), self._y(rejected, top)
            told = f"chosen: {self._label(pair.chosen)}\nrejected: {self._label(pair.rejected)}\nby {pair.margin:.2f}"
            parts.append(
                Markup('<g class="pair"><title>{}</title>{}{}{}</g>').format(
                    told, line(x, y0, x, y1, "span"), _dot(x, y0, 4, "won"), _dot(x, y1, 4, "lost")
                )
            )
        beside = _PAIRS + 10 * sum(map(bool, taken)) + 2
        for number, by in margins.items():
            said = ", ".join(f"−{margin:.2f}" for margin in by[:3]) + ("…" if len(by) > 3 else "")
            parts.append(text(beside, self._y(number, top) + 4, said, ""))
        return parts, folded

    # ---- the parts of a row

    def _x(self, row: Row) -> float:
        return _LEFT + _LANE * row.lane

    def _y(self, number: int, top: float) -> float:
        return top + _PITCH * number + 8

    def _weight(self, row: Row, most: float, least: float) -> float:
        return least + (most - least) * sqrt(self._tree.visits[row.node] / max(1, self._tree.visits[0]))

    def _mark(self, row: Row, x: float, y: float) -> Markup:
        if row.kind == "untried":
            return _dot(x, y, 3, "hollow")
        ending = self._tree.ending[row.node]
        if ending in ("unsafe", "pruned"):
            return bar(x - 5, y - 5, 10, 10, ending)
        q = blended(self._tree, row.node, self._alpha)
        return _dot(x, y, 2.5 if row.kind == "steps" else self._weight(row, 7, 4), f"q{min(4, int(5 * q))}")

    def _words(self, row: Row) -> str:
        if row.kind == "steps":
            return f"{len(row.nodes)} steps: " + " · ".join(map(self._label, row.nodes))
        if row.kind == "untried":
            return f"{len(row.nodes)} not tried: " + " · ".join(map(self._label, row.nodes))
        below = f" (+ {row.below} below)" if row.below else ""
        return self._label(row.node) + below

    def _label(self, node: int) -> str:
        candidate = self._tree.candidate[node]
        if candidate is not None:
            return candidate.label
        seen = self._tree.pages[self._tree.page[node]]
        return f"start: {seen.title or seen.url}"

    def _numbers(self, node: int, y: float) -> Iterable[Markup]:
        tree, q = self._tree, blended(self._tree, node, self._alpha)
        prior = tree.prior[node]
        yield text(_N, y, f"{tree.visits[node]:,}", "end")
        yield text(_VALUE, y, f"{tree.value[node]:.2f}" if tree.visits[node] else "–", "end")
        yield text(_PRIOR, y, "–" if prior is None else f"{prior:.2f}", "end")
        yield bar(_Q, y - 9, 56, 10, "track")
        yield bar(_Q, y - 9, 56 * min(1.0, max(0.0, q)), 10, f"q{min(4, int(5 * q))}")
        yield text(_Q + 64, y, f"{q:.2f}", "value")

    def _told(self, row: Row) -> str:
        """All that is known of a row's actions."""
        tree, told = self._tree, []
        for node in row.nodes:
            candidate, prior = tree.candidate[node], tree.prior[node]
            told.append(self._label(node))
            if candidate is not None:
                told += [said for said in (candidate.thought, candidate.explanation) if said]
            told.append(
                f"N = {tree.visits[node]}, Q̃ = {tree.value[node]:.3f}, Q̂ = {'–' if prior is None else f'{prior:.3f}'}, "
                f"Q = {blended(tree, node, self._alpha):.3f}"
            )
        return "\n".join(told)


def _ending(tree: SearchTree, node: int) -> tuple[str, str] | None:
    """How it ends there, in words and as a class; None where it goes on."""
    match tree.ending[node]:
        case "ended":
            return f"reward {tree.reward[node]:.2g}", "won" if tree.reward[node] >= 1 else "lost"
        case "unsafe":
            return "not carried out", "unsafe-text"
        case "pruned":
            return "pruned", "quiet"
        case "open":
            return None


def _way_mark(y: float) -> Markup:
    return Markup('<path d="M0 {:.1f}H12" class="edge way" stroke-width="3"/>').format(y)


def _wash(y: float) -> Markup:
    return Markup('<rect x="0" y="{:.1f}" width="{}" height="{}" class="wash"/>').format(y, _PAIRS - 20, _PITCH)


def _dot(x: float, y: float, r: float, style: str) -> Markup:
    return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" class="{}"/>').format(x, y, r, style)


def _lines(words: str, width: int, at_most: int) -> list[str]:
    """The text in lines of at most `width` letters."""
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [shortened(said, width) for said in lines[:at_most]]


def _legend(tree: SearchTree, drawn: Sequence[Row], y: float, *, shown: int, folded: int) -> Iterable[Markup]:
    """What the marks mean that occur."""
    end = way_taken(tree)[-1]
    won = tree.ending[end] == "ended" and tree.reward[end] >= 1
    x, y = 4.0, y + 14
    entries = [(_way_mark(y - 4), "the most visited way to a success" if won else "the way most visited")]
    if any(row.kind == "untried" for row in drawn):
        entries.append((_dot(6, y - 4, 3, "hollow"), "proposed, not tried"))
    if "unsafe" in tree.ending:
        entries.append((bar(1, y - 9, 10, 10, "unsafe"), "cannot be taken back: valued by feedback alone"))
    if "pruned" in tree.ending:
        entries.append((bar(1, y - 9, 10, 10, "pruned"), "could not be reached again"))
    for mark, said in entries:
        yield Markup('<g transform="translate({:.0f} 0)">{}{}</g>').format(x, mark, text(18, y, said, ""))
        x += 34 + _LETTER * len(said)
    if shown + folded:
        said = f"{shown} pairs" + (f", {folded} more in folded branches" if folded else "")
        yield text(_WIDTH - 4, y, said, "end")
