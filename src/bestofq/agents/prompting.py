"""The texts models read, from templates in `prompts/`: what an agent knows, and what it is asked.

The same state text begins the prompts to propose and to pick, and is what is embedded as the state (Best-of-Q, A.3), so
that a model's key-value cache of it can serve them all.
"""

import hashlib
from collections.abc import Sequence
from datetime import date
from functools import cache
from importlib.resources import files

import jinja2

from bestofq.core.decision import Candidate, State
from bestofq.core.observation import Observation, Task
from bestofq.core.picture import Picture

HISTORY = 8  # past actions shown, the last ones
LOCAL = ("state", "propose", "pick", "review")  # what a local model reads
CHAT = ("candidates_system", "candidates_user", "picker_system", "localizer")  # what a chat endpoint reads
SCREENSHOTS = 15  # a judge is shown: `max_attached_imgs` in the run_eval.sh of WebVoyager
JUDGE = ("judge_system", "judge_user")  # what a judge reads
GOLDEN = ("golden_system", "golden_user")  # what looks for the golden step among candidates
TASKS = ("tasks_system", "tasks_user")  # what a writer of tasks reads


@cache
def _source(name: str) -> str:
    return files("bestofq.agents").joinpath("prompts", f"{name}.j2").read_text("utf-8")


@cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True)
    return environment.from_string(_source(name))


def render(name: str, **values: object) -> str:
    """A template of `prompts/` with all its values."""
    return _template(name).render(values)


def prompt_hash(names: Sequence[str] = LOCAL) -> str:
    """16 hex digits over templates; kept with each episode and each vector."""
    return hashlib.sha256("\x1f".join(map(_source, names)).encode()).hexdigest()[:16]


def state_text(state: State) -> str:
    """Goal, past actions with what they named, current page; ends with a newline."""
    seen = state.observation
    return _template("state").render(
        goal=state.task.goal, history=history_lines(state), page=seen.text, notices=seen.notices, error=seen.error
    )


def history_lines(state: State, most: int = HISTORY) -> list[str]:
    """The last past actions, each with its note."""
    return [
        f"{d.candidate.label} ({d.candidate.note})" if d.candidate.note else d.candidate.label
        for d in state.decisions[max(0, len(state.decisions) - most) :]
    ]


def pick_prompt(state: State, candidates: Sequence[Candidate]) -> str:
    labels = [c.label for c in candidates]
    return _template("pick").render(state=state_text(state), labels=labels, goal=state.task.goal)


def review_prompt(state: State, candidate: Candidate) -> str:
    """Asks what of the goal one candidate meets. The page is left out: a candidate's label says what it would do."""
    return _template("review").render(history=history_lines(state), goal=state.task.goal, label=candidate.label)


def review_question(state: State, candidate: Candidate) -> str:
    """The same without the history, to follow another review of the same state."""
    return _template("review").render(history=(), goal=state.task.goal, label=candidate.label)


def localizer_prompt(target: str, picture: Picture) -> str:
    """Asks where an element described in words is on a picture (Best-of-Q, A.1)."""
    return _template("localizer").render(target=target, unit=picture_unit(picture))


def picture_unit(picture: Picture) -> str:
    """What a point on the picture is counted in, as a model is told."""
    if picture.limits.coordinates == "thousandths":
        return "from 0 to 1000 on both axes"
    return f"in pixels of the picture, which is {picture.width} wide and {picture.height} high"


def picker_system(state: State, candidates: Sequence[Candidate]) -> str:
    """The system prompt for choosing among candidates by asking (what Fig. 11 asks for, in our words)."""
    return _template("picker_system").render(step=len(state.decisions) + 1, candidates=candidates)


def judge_system(*, pictures: int) -> str:
    """The system prompt of a judge (what He et al. 2024 ask of theirs, in our words, and two classes more)."""
    return _template("judge_system").render(pictures=pictures)


def judge_user(goal: str, answer: str | None, history: Sequence[str], final: Observation, pictures: int) -> str:
    """Task and answer, and what shows the rest: so many pictures, or where there is one the `history` and that, or
    without any the history and the last page."""
    return _template("judge_user").render(
        goal=goal,
        answer=answer,
        pictures=pictures,
        history=history,
        title=final.title,
        url=final.url,
        page=final.text,
    )


def golden_system() -> str:
    """The system prompt for finding the golden step among candidates (what Fig. 10 asks for, in our words)."""
    return render("golden_system")


def golden_user(goal: str, golden: Candidate, candidates: Sequence[Candidate]) -> str:
    """The golden step and the candidates, each with its thought and note; candidates are numbered from 0."""
    return render("golden_user", goal=goal, golden=golden, candidates=candidates)


def tasks_system(*, seed_site: str, site: str, url: str, today: date, first: date, last: date) -> str:
    """The system prompt for new tasks on another site (Best-of-Q, E.1), their dates from `first` to `last`."""
    return _template("tasks_system").render(
        seed_site=seed_site, site=site, url=url, today=today, first=first, last=last
    )


def tasks_user(n: int, *, seed_site: str, site: str, seeds: Sequence[str], made: Sequence[str]) -> str:
    """Asks for n tasks; `seeds` are the examples, `made` what must not come again."""
    return _template("tasks_user").render(n=n, seed_site=seed_site, site=site, seeds=seeds, made=made)


def candidate_text(candidate: Candidate) -> str:
    """What is embedded as the action: it says what the mark names."""
    return candidate.label


def task_text(task: Task) -> str:
    return task.goal
