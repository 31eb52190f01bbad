"""The viewer in a real Chromium: from a run to a step, by links and by keys, while it grows."""

import re
from pathlib import Path

import numpy as np
import pytest
from looking import WIDTH, Looking
from tiny_shop import PROVENANCE, ShopEnv, play, shop_agent, shop_page, shop_task, shop_tree

from bestofq.core.decision import State, Step, Verdict
from bestofq.store.records import EpisodeFilter
from bestofq.store.store import Store

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = '</script><script>window.broken=1</script><img src=x onerror="window.broken=2"><!-- {{ 7 * 7 }}'


async def test_from_a_run_to_the_screenshot_of_a_step(shop: Path, look: Looking) -> None:
    async with look(shop) as it:
        await it.go("/")
        runs = it.page.locator("#list tbody tr")
        assert [name.strip() for name in await runs.locator("th").all_inner_texts()] == ["search", "eval"]
        assert (await runs.first.locator("td").last.inner_text()).startswith("20")
        await runs.get_by_role("link", name="search", exact=True).click()
        assert await it.count("#trees tbody tr") == 1
        assert await it.count("#tasks, #filters") == 0
        await it.page.go_back()
        await runs.get_by_role("link", name="eval", exact=True).click()
        assert re.findall(r"(\w+)\s+(\d+\.\d %) \[", await it.text("#agents tbody")) == [
            ("careful", "100.0 %"),
            ("hasty", "0.0 %"),
        ]
        assert [await it.count(f"#tasks .dot.{mood}") for mood in ("good", "bad")] == [2 + 1, 2 + 1]  # and the key's
        await it.page.locator("#tasks a", has_text="find a red kettle").click()
        assert await it.text("h1") == "find a red kettle"
        assert it.page.url.endswith("run=eval")
        await it.page.get_by_role("link", name="hasty").click()
        drawn = [await it.page.locator(".shot .candidate").nth(n).get_attribute("class") for n in (0, 1)]
        assert drawn == ["candidate c1", "candidate c0 chosen"]  # the chosen one is on top
        await it.page.locator(".chip", has_text="2").click()
        await it.page.locator("output", has_text="Step 2 of 2").wait_for()
        assert await it.page.locator(".shot image").evaluate(WIDTH) == 640
        assert await it.count(".shot .element") == 2
        assert await it.page.locator(".shot .candidate.chosen title").text_content() == "2: click link Kettle 1"
        box = await it.page.locator(".shot .element rect").nth(1).bounding_box()
        shown = await it.page.locator(".shot image").bounding_box()
        assert (box["x"] - shown["x"]) / shown["width"] == pytest.approx(40 / 640, abs=0.01)
        assert (box["y"] - shown["y"]) / shown["height"] == pytest.approx(160 / 360, abs=0.01)
        assert await it.text(".candidates .chosen .label") == "click link Kettle 1"
        assert await it.text(".candidates .chosen .said") == "Kettle may be here."
        assert (await it.text(".candidates .chosen .bar")).split() == ["score", "0.900"]
        assert await it.text(".weighed h2") == "score 0.900, +0.600 over the second."
        small = await it.page.locator(".shot").bounding_box()
        await it.page.locator(".picture").click()
        large = await it.page.locator(".shot").bounding_box()
        assert large["width"] > small["width"]
        assert it.complaints == []


async def test_keys_step_through_an_episode(shop: Path, look: Looking) -> None:
    async with look(shop) as it:
        await it.go("/episodes?agent=careful&find=kettles")
        await it.page.locator("#list a").first.click()
        where = it.page.locator("output")
        await where.filter(has_text="Step 1 of 3").wait_for()
        for key, words in (
            ("ArrowRight", "Step 2 of 3"),
            ("ArrowRight", "Step 3 of 3"),
            ("ArrowRight", "End"),
            ("ArrowLeft", "Step 3 of 3"),
            ("Home", "Step 1 of 3"),
            ("End", "End"),
        ):
            await it.page.keyboard.press(key)
            await where.filter(has_text=words).wait_for()
        assert it.page.url.endswith("&step=end")
        assert "success" in await it.text(".ending")
        await it.page.go_back()
        await where.filter(has_text="Step 1 of 3").wait_for()
        assert await it.page.locator(".shot .element").first.is_visible()
        await it.page.keyboard.press("b")
        assert not await it.page.locator(".shot .element").first.is_visible()
        await it.page.keyboard.press("ArrowRight")
        await where.filter(has_text="Step 2 of 3").wait_for()
        assert not await it.page.locator(".shot .element").first.is_visible()
        await it.page.reload()
        assert not await it.page.locator(".shot .element").first.is_visible()
        await it.page.locator("#boxes").click()
        assert await it.page.locator(".shot .element").first.is_visible()
        await it.page.keyboard.press("ArrowLeft")
        await where.filter(has_text="Step 1 of 3").wait_for()
        press = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }))"
        await it.page.evaluate(f"{press}; {press}")  # two keys at once are two steps
        await where.filter(has_text="Step 3 of 3").wait_for()
        await it.page.keyboard.press("ArrowLeft")
        await where.filter(has_text="Step 2 of 3").wait_for()
        await it.page.locator("[data-key=ArrowRight]").focus()
        await it.page.keyboard.press("Enter")
        await where.filter(has_text="Step 3 of 3").wait_for()
        assert await it.page.evaluate("document.activeElement.dataset.key") == "ArrowRight"
        await it.page.keyboard.press("u")
        await it.page.wait_for_url("**/task?**")
        assert it.complaints == []


async def test_keys_go_through_the_episodes_of_a_list(shop: Path, look: Looking) -> None:
    async with look(shop) as it:
        await it.go("/episodes?agent=careful")
        listed = await it.page.locator("#list tbody th a").evaluate_all(
            "links => links.map(a => new URL(a.href).pathname)"
        )
        assert len(listed) > 1
        await it.page.locator("#list a").first.click()
        place = it.page.locator(".beside")
        await place.filter(has_text=f"1 of {len(listed)}").wait_for()
        assert await place.locator("a[data-key=p]").count() == 0
        await it.page.keyboard.press("ArrowRight")
        await it.page.locator("output", has_text="Step 2 of 3").wait_for()
        await it.page.keyboard.press("n")
        await it.page.wait_for_url(f"**{listed[1]}?agent=careful")
        await it.page.keyboard.press("p")
        await it.page.wait_for_url(f"**{listed[0]}?agent=careful")
        await place.get_by_role("link", name=f"1 of {len(listed)}").click()
        await it.page.wait_for_url("**/episodes?agent=careful")
        assert it.complaints == []


async def test_lists_are_narrowed_by_suite_agent_outcome_and_words(tmp_path: Path, look: Looking) -> None:
    with Store.open(tmp_path) as store:
        for task in (shop_task(), shop_task("mugs--0"), shop_task("mugs--1").model_copy(update={"suite": "market"})):
            await play(store, shop_agent(), shop_agent("hasty", hasty=True), task=task)
    async with look(tmp_path) as it:
        await it.go("/episodes")
        assert await it.count("#list tbody tr") == 6
        await it.page.locator("input[name=find]").fill("mugs")
        await it.page.locator("input[name=find]").press("Enter")
        await it.page.wait_for_url("**find=mugs*")
        assert await it.count("#list tbody tr") == 4
        for name, value, left in (("agent", "hasty", 2), ("suite", "market", 1)):
            await it.page.locator(f"select[name={name}]").select_option(value)
            await it.page.wait_for_url(f"**{name}={value}*")
            assert await it.count("#list tbody tr") == left
        assert "mugs--1" in await it.text("#list tbody")
        await it.page.locator("select[name=outcome]").select_option("success")
        await it.page.wait_for_url("**outcome=success*")
        assert await it.count("#list tbody tr") == 0
        await it.page.get_by_role("link", name="Clear").click()
        await it.page.wait_for_url(f"{it.root}/episodes")
        assert await it.count("#list tbody tr") == 6
        assert it.complaints == []


async def test_a_run_and_a_comparison_grow_too(tmp_path: Path, look: Looking) -> None:
    with Store.open(tmp_path) as store:
        [done] = await play(store, shop_agent(), run="now")
        async with look(tmp_path) as it:
            await it.go("/run?run=now")
            await it.page.evaluate("window.same = true")
            episode = await store.begin_episode("now", "hasty", shop_task(), 0, PROVENANCE)
            await it.page.locator("#tasks .dots .dot.live").wait_for()
            decision = done.steps[0].decision
            await store.append_step(episode, Step(index=0, observation=shop_page(0), decision=decision))
            await it.page.locator("#tasks .dots .dot.live", has_text="1").wait_for()
            assert await it.page.evaluate("window.same")
            await it.go("/task?suite=shop&task=kettles--0")
            chosen = it.page.locator("input[name=left]:checked")
            await it.page.locator("input[name=left]").last.check()
            assert (before := await chosen.input_value()) != await it.page.locator(
                "input[name=left]"
            ).first.input_value()
            await store.begin_episode("now", "late", shop_task(), 0, PROVENANCE)
            await it.page.get_by_role("link", name="late").wait_for()
            assert await chosen.input_value() == before
            assert await it.page.evaluate("document.activeElement.value") == before
            await it.go(f"/compare?left={done.id}&right={episode}")
            await it.page.evaluate("window.same = true")
            await store.append_step(episode, Step(index=1, observation=shop_page(1), decision=decision))
            await it.page.locator(".side-head", has_text="2 steps").wait_for()
            await store.finish_episode(episode, Verdict(reward=0.0, outcome="failure"), shop_page(2))
            await it.page.locator(".side-head .tag", has_text="failure").wait_for()
            assert await it.page.evaluate("window.same")
            assert it.complaints == []


async def test_a_run_in_progress_grows_on_its_pages(tmp_path: Path, look: Looking) -> None:
    with Store.open(tmp_path) as store:
        async with look(tmp_path) as it:
            await it.go("/")
            assert "Nothing has been run" in await it.text("main")
            await it.page.evaluate("window.same = true")
            await store.begin_run("now", {}, PROVENANCE)
            episode = await store.begin_episode("now", "careful", shop_task(), 0, PROVENANCE)
            await it.page.get_by_text("1 running").wait_for()
            assert await it.page.evaluate("window.same")
            await it.page.context.set_offline(True)
            await it.page.locator("main[data-lost]").wait_for()
            await it.page.context.set_offline(False)
            await it.page.locator("main:not([data-lost])").wait_for()
            assert {complaint.rpartition(" ")[2] for complaint in it.complaints} == {"net::ERR_INTERNET_DISCONNECTED"}
            it.complaints.clear()
            await it.go(f"/episode/{episode}")
            await it.page.evaluate("window.same = true")
            state = State(task=shop_task(), observation=shop_page(0))
            decision = await shop_agent().decide(state, np.random.default_rng(0))
            for index in (0, 1):
                await store.append_step(episode, Step(index=index, observation=shop_page(index), decision=decision))
                await it.page.locator("output", has_text=f"Step {index + 1} of {index + 1}").wait_for()
                assert f"page {index}" in await it.text(".window figcaption")
            await it.page.keyboard.press("Home")  # who looks back is left alone
            await it.page.locator("output", has_text="Step 1 of 2").wait_for()
            await store.append_step(episode, Step(index=2, observation=shop_page(2), decision=decision))
            await it.page.locator("output", has_text="Step 1 of 3").wait_for()
            await store.finish_episode(episode, Verdict(reward=1.0, outcome="success"), shop_page(3))
            await it.page.locator(".facts .tag", has_text="success").wait_for()
            assert await it.page.evaluate("window.same")
            assert it.complaints == []


async def test_what_a_store_holds_is_text_and_nothing_runs(tmp_path: Path, look: Looking) -> None:
    task = shop_task(f"{HOSTILE}--0", HOSTILE)
    with Store.open(tmp_path) as store:
        for agent in (shop_agent(HOSTILE, HOSTILE), shop_agent("hasty", HOSTILE, hasty=True)):
            env = ShopEnv(HOSTILE, pictured=agent.name == "hasty")
            await play(store, agent, task=task, run=HOSTILE, env=env)
        await store.trees.save(HOSTILE, shop_tree(task, HOSTILE).to_tree())
        one, other = store.catalogue.episodes(EpisodeFilter())
    compare = f"/compare?left={one.id}&right={other.id}"
    async with look(tmp_path) as it:
        await it.go("/")
        await it.page.locator("#list a").first.click()
        assert await it.text("h1") == HOSTILE
        episodes = [f"/episode/{episode.id}{step}" for episode in (one, other) for step in ("", "?step=end")]
        for path in ("/episodes", *episodes, compare, "/trees"):
            await it.go(path)
            await it.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
            assert HOSTILE in await it.text("main"), path
        await it.page.locator("#list a").first.click()
        assert HOSTILE in await it.text("#tree")
        for episode in (one, other):  # with pictures and without
            await it.go(f"/episode/{episode.id}?step=2")
            assert f"{HOSTILE} 1 [1]" in await it.page.locator("pre.text").first.text_content()  # type: ignore[operator]
        assert await it.page.evaluate("window.broken") is None
        assert await it.count("img[src=x]") == 0
        assert [url for url in it.requests if not url.startswith((it.root, "data:"))] == []
        assert it.complaints == []


async def test_the_policy_stops_what_would_run_even_in_a_page_of_ours(shop: Path, look: Looking) -> None:
    async with look(shop) as it:
        await it.go("/")
        await it.page.evaluate(
            """() => { const it = document.createElement("div"); document.body.append(it);
                it.innerHTML = '<img src=x onerror="window.broken=1"><img src="http://127.0.0.1:9/y">';
                const script = document.createElement("script");
                script.textContent = "window.broken=2"; it.append(script) }"""
        )
        await it.page.wait_for_timeout(200)
        assert await it.page.evaluate("window.broken") is None
        assert any("script-src" in complaint for complaint in it.complaints)
        assert any("127.0.0.1:9" in complaint for complaint in it.complaints)


async def test_everything_is_there_without_javascript(shop: Path, look: Looking) -> None:
    async with look(shop, java_script_enabled=False) as it:
        await it.go("/run?run=eval")
        await it.page.locator("select[name=agent]").select_option("hasty")
        await it.page.get_by_role("button", name="Show").click()
        assert await it.count("#tasks thead th") == 2
        await it.page.locator("#tasks a.dot").first.click()
        await it.page.get_by_role("link", name="Next step").click()
        assert await it.text("output") == "Step 2 of 2"
        await it.page.get_by_role("link", name="compare").first.click()
        assert "they part here" in await it.text(".parted h3")
        assert await it.count(".pair-row") == 4


async def test_two_agents_stand_side_by_side(shop: Path, look: Looking) -> None:
    async with look(shop) as it:
        await it.go("/task?suite=shop&task=kettles--0")
        await it.page.get_by_role("button", name="Compare").click()
        assert await it.text(".side-head >> nth=0") != await it.text(".side-head >> nth=1")
        assert (await it.text(".parted h3")).split() == ["Step", "2", "they", "part", "here"]
        labels = await it.page.locator("#step-2 .label").all_inner_texts()
        assert sorted(labels) == ["click link Kettle 1", "click link Kettle 2"]
        await it.page.evaluate("window.same = true")
        await it.page.get_by_role("link", name="They part at step 2").click()
        await it.page.wait_for_url("**#step-2")
        assert await it.page.evaluate("window.same")
        await it.page.locator(".side-head select").first.select_option(index=0)
        await it.page.wait_for_load_state()
        assert it.complaints == []


async def test_a_search_tree_folds(shop: Path, look: Looking) -> None:
    async with look(shop) as it:
        await it.go("/trees")
        await it.page.get_by_role("link", name="find a red kettle").click()
        bars = [" ".join(text.split()) for text in await it.page.locator(".node .bars").all_text_contents()]
        assert bars == ["N 2 Q̃ 0.500 Q̂ 0.400 Q 0.450", "N 1 Q̃ 0.000 Q̂ 0.800 Q 0.400", "N 1 Q̃ 0.000 Q̂ – Q 0.000"]
        assert await it.text(".instead summary") == "1 other action here, 1 tried: Q 0.40"
        folded = it.page.locator(".instead .node")
        assert not await folded.is_visible()
        await it.page.get_by_role("button", name="Unfold all").click()
        assert await folded.is_visible()
        assert await folded.locator(".thought").inner_text() == "Kettle"
        await it.page.get_by_role("button", name="Fold all", exact=True).click()
        assert not await folded.is_visible()
        await it.page.locator("input[name=alpha]").fill("1")
        await it.page.get_by_role("button", name="Show").click()
        await it.page.wait_for_url("**alpha=1&threshold=**")
        assert (await it.text(".node .bars")).split()[-1] == "0.500"
        assert it.complaints == []
