"""How often an element described in words is found, over the shop's pages in Chromium, by kind of description.

    python benchmarks/localizer.py --out localizer.json

Every element whose name stands once on its page is described in five ways, none of them its name as it is. A hit is a
point within the element's box; a refusal names no point; the rest would have clicked something else.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bestofq.agents.localizers import PageLocalizer
from bestofq.browser.browser import Browser
from bestofq.browser.session import BrowserSession
from bestofq.core.observation import Element, Observation
from bestofq_sites.local_site.server import serve
from bestofq_sites.webshop.suite import synthetic_suite
from bestofq_sites.webshop.views import Item, ShopResults, View, to_url

KINDS = ("with its role", "first words", "last words", "a letter wrong", "words in another order")


def described(element: Element, kind: str, rng: random.Random) -> str | None:
    """The element in words; None where this kind has nothing to say of it."""
    words = element.name.split()
    match kind:
        case "with its role":
            return f"the {element.name.lower()} {element.role}"
        case "first words":
            return " ".join(words[: (len(words) + 1) // 2]) if len(words) > 2 else None
        case "last words":
            return " ".join(words[len(words) // 2 :]) if len(words) > 2 else None
        case "a letter wrong":
            at = rng.randrange(len(element.name))
            return element.name[:at] + rng.choice("aeiou") + element.name[at + 1 :] if len(element.name) > 4 else None
        case _:
            return " ".join(rng.sample(words, len(words))) if len(words) > 2 else None


async def measure(pages: int, seed: int) -> dict[str, Counter[str]]:
    """Outcomes by kind of description."""
    rng = random.Random(seed)
    suite = synthetic_suite()
    found: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    localizer = PageLocalizer()
    async with serve(suite) as site, Browser.launch() as browser:
        session = BrowserSession(browser)
        for task in suite.tasks("dev", pages // 2):
            goal = suite.goals[task.id]
            root = site.open_visit(task)
            results = ShopResults(query=suite.catalogue[goal.product_id].query)
            views: list[View] = [results, Item(product_id=goal.product_id, results=results)]
            for view in views:
                await session.reset(root + to_url(view))
                seen = await session.snapshot()
                names = Counter(element.name for element in seen.elements)
                for element in (e for e in seen.elements if names[e.name] == 1 and e.name):
                    for kind in KINDS:
                        words = described(element, kind, rng)
                        if words is not None:
                            found[kind][await outcome(localizer, seen, element, words)] += 1
        await session.close()
    return found


async def outcome(localizer: PageLocalizer, seen: Observation, element: Element, words: str) -> str:
    point = (await localizer.locate(seen, words)).point
    if point is None:
        return "refused"
    box = element.box
    inside = box is not None and box.x <= point.x <= box.x + box.width and box.y <= point.y <= box.y + box.height
    return "hit" if inside else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    found = asyncio.run(measure(args.pages, args.seed))
    total = sum(found.values(), Counter())
    sys.stdout.write(f"{'description':24}{'of':>7}{'hit':>8}{'refused':>9}{'wrong':>8}\n")
    for kind, counts in {**found, "all": total}.items():
        shares = "".join(
            f"{100 * counts[name] / counts.total():{wide}.1f}"
            for name, wide in (("hit", 8), ("refused", 9), ("wrong", 8))
        )
        sys.stdout.write(f"{kind:24}{counts.total():7}{shares}\n")
    if args.out:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        result = {
            "command": " ".join(["python", *sys.argv]),
            "seed": args.seed,
            "commit": commit,
            "machine": {"cpu": platform.machine(), "cores": os.cpu_count()},
            "counts": {kind: dict(counts) for kind, counts in found.items()},
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
