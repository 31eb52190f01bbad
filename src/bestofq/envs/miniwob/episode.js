// How the episode of a MiniWoB++ page stands; begins it first where this document has none. Runs in the page's own
// world, with the names of core.js. A function of the task's path, its seed, and the ms its page has to be ready.
(async (path, seed, patience) => {
  if (location.pathname !== path) return { left: true };
  if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done));
  const deadline = performance.now() + patience;
  const until = async (ready) => {
    while (!ready()) {
      if (performance.now() > deadline) throw new Error(`the task was not ready within ${patience} ms`);
      await new Promise((done) => setTimeout(done, 5));
    }
  };
  const begun = !core.bestofq;
  if (begun) {
    core.bestofq = true;
    await until(() => core.cover_div);
    const style = document.createElement("style");
    style.textContent = "#reward-display, #click-canvas, #sync-task-cover { display: none !important }";
    document.head.append(style);
    core.EPISODE_MAX_TIME = 2 ** 31 - 1; // the longest a timer can run, 24 days
    Math.seedrandom(seed);
    core.startEpisodeReal();
    core.clearTimer(); // the countdown, hidden as it is
    await until(() => WOB_TASK_READY);
  }
  return {
    left: false, begun, utterance: core.getUtterance(), done: WOB_DONE_GLOBAL, raw: WOB_RAW_REWARD_GLOBAL,
  };
})
