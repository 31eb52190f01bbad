"""`bestofq ablation`: a question about Best-of-Q answered by arms that differ in a few settings, as files to commit."""

from pathlib import Path

from bestofq.cli.config import config_of, merge_settings, read_tree
from bestofq.cli.options import console
from bestofq.cli.writing import write_out
from bestofq.config.settings import BestOfQSettings
from bestofq.core.concurrency import run_interruptible
from bestofq.core.errors import ConfigError
from bestofq.recipes.ablation import AblationRunner, ArmResult, Ranker
from bestofq.recipes.ablation_config import Ablation, Arm, ArmConfig, Data
from bestofq.recipes.provenance import made_by
from bestofq.reports.ablation import ablation_pictures, ablation_table, results_of


def plan_ablation(file: Path) -> None:
    ablation, configs = read_ablation(file)
    console.print(f"{ablation.title}: about {ablation.minutes} minutes on two cores")
    for config in configs:
        console.print(
            f"{config.arm.name}: {len(ablation.seeds)} Q-functions of {config.learning.iql.steps:,} steps, each plays "
            f"{ablation.test_tasks} test tasks {ablation.passes}×"
        )


def run_ablation(file: Path, out: Path, results: Path | None, rank: Ranker | None = None) -> None:
    """Measure a file's arms; `rank` rates what their Q-functions choose at dev steps, if the file asks for that."""
    ablation, configs = read_ablation(file)

    async def measure() -> list[ArmResult]:
        with AblationRunner(ablation, out, console, rank) as runner:
            return [await runner.measure(config) for config in configs]

    console.print(f"{ablation.title}: about {ablation.minutes} minutes on two cores")
    found = results_of(run_interruptible(measure()))
    table = ablation_table(ablation.title, found)
    folder = results or file.parent
    result = {
        **made_by(configs[0].learning),
        "study": ablation.model_dump(mode="json"),
        "arms": [row.model_dump(mode="json") for row in found],
    }
    console.print(table)
    write_out(folder / "result.json", result)
    (folder / "table.md").write_text(table.to_markdown(), "utf-8")
    for name, picture in ablation_pictures(ablation.title, found).items():
        (folder / name).write_text(picture, "utf-8")


def read_ablation(file: Path) -> tuple[Ablation, list[ArmConfig]]:
    """An ablation with the settings of its arms. ConfigError on what is not understood, or cannot be compared."""
    tree = read_tree(file)
    try:
        ablation = config_of(Ablation, tree)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
    base = merge_settings(read_tree(file.parent / ablation.config), ablation.set)
    return ablation, [_arm_config(ablation, arm, base) for arm in ablation.arm]


def _arm_config(ablation: Ablation, arm: Arm, base: dict[str, object]) -> ArmConfig:
    try:
        collecting = merge_settings(base, arm.collect)
        learning = merge_settings(collecting, arm.learn)
        data = config_of(Data, merge_settings(ablation.data.model_dump(), arm.data))
        own = config_of(BestOfQSettings, collecting) if arm.collect else None
        learned, acting = (config_of(BestOfQSettings, tree) for tree in (learning, merge_settings(learning, arm.act)))
    except ConfigError as error:
        raise ConfigError(f"The arm {arm.name!r}: {error}") from error
    return ArmConfig(arm=arm, data=data, collecting=own, learning=learned, acting=acting)
