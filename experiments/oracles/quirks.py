"""The oracle of the sites with quirks: knows the goal, and with `knows` the quirks. Without them it is right on
ordinary sites, and teaches the pocket model; with them it rates candidates, and is the ceiling."""

import random

from bestofq.core.actions import Action, Click, Write
from bestofq.core.observation import Observation, Task
from bestofq_sites.quirks.sites import WHOLE, WORD
from bestofq_sites.quirks.suite import AGAIN, Quirks, QuirksVisit
from experiments.oracles.advice import Advice, click_on, mark_of


class QuirksOracle:
    """Advice for one task. `knows`: the quirks too, else every way is as good as the other."""

    def __init__(self, suite: Quirks, task: Task, *, knows: bool) -> None:
        self.goal = suite.goals[task.id]
        self._knows = knows

    def advise(self, visit: QuirksVisit, seen: Observation, rng: random.Random) -> Advice:
        """One of the right actions, each as likely."""
        stage = visit.site.kind.stages[visit.stage]
        if self._lost(visit):
            return Advice("this is not it", click_on(seen, AGAIN))
        way = rng.choice(self._ways(visit))
        match stage.kind:
            case "search":
                text = self.goal.item if way == WHOLE else self.goal.item.split()[-1]
                return Advice("find it", Write(mark=mark_of(seen, "Search"), text=text.lower(), enter=True))
            case "items":
                return Advice("this is it", click_on(seen, self.goal.item))
            case "values":
                return Advice(f"{self.goal.value} is wanted", click_on(seen, self.goal.value))
        return Advice("go on", click_on(seen, stage.ways[way]))

    def is_right(self, visit: QuirksVisit, seen: Observation, action: Action) -> bool:
        """Whether the action leads on towards a full reward."""
        stage = visit.site.kind.stages[visit.stage]
        if isinstance(action, Write):
            words = set(action.text.lower().split())
            way = WORD if len(words) == 1 else WHOLE
            fits = bool(words) and words <= set(self.goal.item.lower().split())
            return stage.kind == "search" and action.enter and fits and way in self._ways(visit)
        if not isinstance(action, Click) or action.mark is None or action.mark > len(seen.elements):
            return False
        name = seen.elements[action.mark - 1].name
        if self._lost(visit):
            return name == AGAIN
        match stage.kind:
            case "items":
                return name == self.goal.item
            case "values":
                return name == self.goal.value
        return name in {stage.ways[way] for way in self._ways(visit)} if stage.ways else False

    def _ways(self, visit: QuirksVisit) -> list[int]:
        """That go on."""
        quirk = visit.quirk if self._knows else None
        again = quirk is not None and quirk.effect == "twice" and visit.stage in visit.tried
        return [way for way in (WHOLE, WORD) if quirk is None or quirk.way != way or again]

    def _lost(self, visit: QuirksVisit) -> bool:
        """Whether something was chosen that can only be put right from the search on."""
        at = visit.site.kind.stages[visit.stage].kind
        item_wrong = visit.item not in (None, self.goal.item) or (at == "items" and self.goal.item not in visit.found)
        value_wrong = at == "fork" and visit.item is not None and visit.value != self.goal.value
        return item_wrong or value_wrong or (self._knows and visit.refused)
