"""How well what cannot be taken back is known by its words: recall and false alarms on a corpus, and on sites of ours.

    python benchmarks/gate.py --half dev                                   # what is missed there, to work on
    python benchmarks/gate.py --half held-out --sites --out benchmarks/results/gate.json

`data/gate/` holds names of controls in many languages and tricks to hide them. `controls.toml` and `tricks.toml` are
written here: a hash of each case says which half it is in, and the words of `bestofq/safety` are worked on with the dev
half alone. The other files are the controls of a shop, an editor, a booking site and a home that others wrote and
translated: each was counted once before its misses were read and worked on (gate.json: `first_reading`), which says
what to expect of names that the words were not written for. `--sites` counts alarms at the controls of the shop, the
booking site and the sites with quirks, where the suite knows what is final, and at those of MiniWoB++ (in a browser),
where nobody does.
"""

import argparse
import asyncio
import hashlib
import json
import os
import platform
import random
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bestofq.core.actions import Action, Click, Goto, Write
from bestofq.core.observation import Element, Observation
from bestofq.envs.miniwob.settings import MiniWobSettings
from bestofq.envs.miniwob.suite import MiniWob
from bestofq.safety.irreversible import irreversible
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.rules import Rules
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.quirks.settings import QuirksSettings
from bestofq_sites.quirks.suite import Quirks
from bestofq_sites.webshop.suite import synthetic_suite

DATA = Path(__file__).parent / "data" / "gate"
TRANSLATED = ("oscar", "wagtail", "indico", "home_assistant")
VISITS, STEPS = 40, 12  # random walks over each site


class Case(NamedTuple):
    group: str  # a file, or tricks
    language: str
    name: str
    action: Action
    seen: Observation
    final: bool  # it cannot be taken back

    @property
    def half(self) -> str:
        if self.group in TRANSLATED:
            return "dev"
        digest = hashlib.sha256(f"{self.language}\t{self.name}\t{self.final}".encode()).digest()
        return "dev" if digest[0] % 2 else "held-out"

    @property
    def asked(self) -> bool:
        return irreversible(self.action, self.seen) is not None


def page(**element: Any) -> Observation:
    made = Element(mark=1, **{"role": "button", "name": "", **element})
    return Observation(url="https://site.test/page", title="", text=f"{made.name} [1]", elements=(made,))


def cases() -> Iterator[Case]:
    for file in ("controls", *TRANSLATED):
        for language, names in _read(file).items():
            for kind in ("irreversible", "ordinary"):
                for entry in names[kind]:
                    role, _, name = entry.rpartition("|")
                    seen = page(name=name, role=role or "button")
                    yield Case(file, language, entry, Click(mark=1), seen, kind == "irreversible")
    for trick in _read("tricks")["trick"]:
        how, url = trick.pop("how"), trick.pop("goto", None)
        action = Click(mark=1) if url is None else Goto(url=url)
        yield Case("tricks", "tricks", how, action, page(**trick), final=True)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / f"{name}.toml").read_text("utf-8"))


def counted(found: Sequence[Case]) -> dict[str, Any]:
    """Recall and false alarms, each with its counts, and what was got wrong."""
    result: dict[str, Any] = {"languages": len({case.language for case in found})}
    for name, final in (("recall", True), ("false_alarms", False)):
        some = [case for case in found if case.final is final]
        if some:
            asked = sum(case.asked for case in some)
            result[name] = {"of": len(some), "asked": asked, "share": round(asked / len(some), 4)}
    return result | {"wrong": [f"{c.language}: {c.name}" for c in found if c.asked is not c.final]}


async def walked(site: Rules[Any, Any, Any], seed: int) -> dict[str, Any]:
    """Distinct controls met on random walks over a site of ours, which knows what is final there."""
    rng, env = random.Random(seed), TextEnv(site)
    met: dict[tuple[str, str, str], tuple[bool, bool]] = {}
    for task in site.tasks("dev", VISITS):
        seen = await env.reset(task, seed=0)
        for _ in range(STEPS):
            for element in seen.elements:
                click = Click(mark=element.mark)
                known = site.irreversible(seen, click), irreversible(click, seen) is not None
                met[seen.url.partition("?")[0], element.role, element.name] = known
            element = rng.choice(seen.elements)
            action: Action = Click(mark=element.mark)
            if element.role in ("searchbox", "textbox"):
                action = Write(mark=element.mark, text=rng.choice(task.goal.split()), enter=element.role == "searchbox")
            result = await env.step(action)
            if result.terminated:
                break
            seen = result.observation
    final = [asked for is_final, asked in met.values() if is_final]
    ordinary = {key: asked for key, (is_final, asked) in met.items() if not is_final}
    alarms = sorted({name for (_, _, name), asked in ordinary.items() if asked})
    return {
        "recall": {"of": len(final), "asked": sum(final)},
        "false_alarms": {"of": len(ordinary), "asked": sum(ordinary.values()), "names": alarms[:20]},
    }


async def miniwob() -> dict[str, Any]:
    """Controls on the first page of each task of MiniWoB++, and the names of those that are asked about."""
    met: dict[tuple[str, str, str], bool] = {}
    suite = MiniWob(MiniWobSettings(per_task=1))
    async with suite.open() as make_env:
        env = await make_env()
        for task in await suite.tasks("dev"):
            seen = await env.reset(task, seed=task.seed)
            for element in seen.elements:
                click = Click(mark=element.mark)
                met[task.id.partition("/")[0], element.role, element.name] = irreversible(click, seen) is not None
        await env.close()
    asked = sorted(f"{task}: {role} {name}" for (task, role, name), said in met.items() if said)
    return {"controls": len(met), "asked": len(asked), "names": asked}


async def on_sites(seed: int) -> dict[str, Any]:
    sites: dict[str, Rules[Any, Any, Any]] = {
        "webshop": synthetic_suite(),
        "booking": Booking(),
        "quirks": Quirks(QuirksSettings()),
    }
    found = {name: await walked(site, seed) for name, site in sites.items()}
    return found | {"miniwob": await miniwob()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("dev", "held-out"), default="dev")
    parser.add_argument("--sites", action="store_true", help="count alarms on the sites of ours, too")
    parser.add_argument("--seed", type=int, default=0, help="of the walks")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    half = [case for case in cases() if case.half == args.half]
    groups = {group: [case for case in half if case.group == group] for group in ("controls", "tricks", *TRANSLATED)}
    result: dict[str, Any] = {group: counted(found) for group, found in groups.items() if found}
    if args.sites:
        result["sites"] = asyncio.run(on_sites(args.seed))
    sys.stdout.write(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    if args.out:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        first = json.loads(args.out.read_text("utf-8")).get("first_reading") if args.out.exists() else None
        head = {
            "command": " ".join(["python", *sys.argv]),
            "seed": args.seed,
            "commit": commit,
            "machine": {"cpu": platform.machine(), "cores": os.cpu_count()},
            "first_reading": first,  # kept, never counted again
        }
        args.out.write_text(json.dumps({**head, **result}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
