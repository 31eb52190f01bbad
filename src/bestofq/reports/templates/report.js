"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const [ID, RUN, AGENT, TASK, REPEAT, SPLIT, OUTCOME, REWARD, STEPS] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const PER_VIEW = 100;
const SVG = "http://www.w3.org/2000/svg";
const word = (row, column) => data.words[row[column]];
const byId = (id) => document.getElementById(id);
const now = { row: null, step: 0, shown: PER_VIEW };

/* An element with attributes and children. Strings become text, never markup. */
const make = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
function fill(node, attributes = {}, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
const number = (value, digits = 3) => (value === null ? "–" : value.toFixed(digits));
const outcomeTag = (outcome) =>
  make("span", { class: `tag ${outcome === "success" ? "good" : "bad"}` }, outcome.replace("_", " "));

/* ---- the list */

function matching() {
  const find = byId("find").value.trim().toLowerCase();
  const wanted = [["agent", AGENT], ["outcome", OUTCOME], ["split", SPLIT]]
    .map(([id, column]) => [column, byId(id).value]).filter(([, value]) => value !== "");
  const only = byId("only").checked;
  return data.episodes.filter((row) =>
    wanted.every(([column, value]) => word(row, column) === value) &&
    (!only || row[ID] in data.replays) &&
    (find === "" || word(row, TASK).toLowerCase().includes(find) ||
      (data.replays[row[ID]]?.goal ?? "").toLowerCase().includes(find)));
}

function listItem(row) {
  const replay = data.replays[row[ID]];
  const about = [word(row, AGENT), `${row[STEPS]} steps`, `${word(row, RUN)} #${row[REPEAT]}`];
  if (row[REWARD] > 0 && row[REWARD] < 1) about.splice(2, 0, `reward ${number(row[REWARD], 2)}`);
  if (!replay) about.push("no replay");
  return make("li", {}, make("button",
    { type: "button", disabled: !replay, "data-id": row[ID], "aria-current": String(row === now.row), title: replay?.goal, onclick: () => open(row, 0) },
    make("div", { class: "first" }, make("span", { class: "task" }, word(row, TASK)), outcomeTag(word(row, OUTCOME))),
    make("div", { class: "second" }, about.join(" · "))));
}

function list() {
  const rows = matching();
  byId("rows").replaceChildren(...rows.slice(0, now.shown).map(listItem));
  byId("count").textContent = `${rows.length.toLocaleString("en")} of ${data.episodes.length.toLocaleString("en")} episodes`;
  byId("more").hidden = rows.length <= now.shown;
}

/* ---- a replay */

function open(row, step) {
  now.row = row;
  now.step = step;
  for (const button of byId("rows").querySelectorAll("button")) button.setAttribute("aria-current", String(button.dataset.id === row[ID]));
  show();
}

function go(step) {
  if (now.row === null) return;
  const last = data.replays[now.row[ID]].steps.length;
  now.step = Math.min(Math.max(step, 0), last);
  show();
}

function show() {
  const row = now.row, replay = data.replays[row[ID]], count = replay.steps.length;
  const outcome = word(row, OUTCOME), ended = now.step === count;
  const lit = document.activeElement?.dataset?.step;
  byId("replay").replaceChildren(...[
    make("h3", {}, replay.goal),
    make("p", { class: "soft about" }, `${word(row, AGENT)} · task ${word(row, TASK)} · ${word(row, SPLIT)} · run ${word(row, RUN)} #${row[REPEAT]} · seed ${replay.seed}`,
      replay.commit ? ` · commit ${replay.commit.slice(0, 12)}` : "", " ", outcomeTag(outcome),
      make("span", { class: "tag" }, `reward ${number(row[REWARD], 2)}`)),
    chart(replay),
    make("div", { class: "steps" },
      make("button", { type: "button", "data-step": "back", "aria-label": "Previous step", disabled: now.step === 0, onclick: () => go(now.step - 1) }, "←"),
      make("output", {}, ended ? "End" : `Step ${now.step + 1} of ${count}`),
      make("button", { type: "button", "data-step": "on", "aria-label": "Next step", disabled: ended, onclick: () => go(now.step + 1) }, "→"),
      make("span", { class: "soft keys" }, "← → keys step through")),
    ended ? ending(row, replay) : turn(replay.steps[now.step], replay),
  ].filter((node) => node !== null));
  if (lit) document.querySelector(`[data-step=${lit}]:enabled`)?.focus();
  history.replaceState(null, "", `#${row[ID]}/${now.step + 1}`);
}

function turn(step, replay) {
  const boxes = step.candidates.map((candidate) => candidate.box);
  const view = screen(data.pages[step.page], boxes, step.chosen);
  const [low, high] = range(replay), ranked = ranks(replay);
  const cards = step.candidates.map((candidate, index) => {
    const chosen = index === step.chosen;
    const bar = make("div", { class: "fill" });
    bar.style.width = `${candidate.score === null || high === low ? 0 : 100 * (candidate.score - low) / (high - low)}%`;
    const light = (on) => () => view.querySelector(`[data-box="${index}"]`)?.classList.toggle("lit", on);
    return make("li", { class: chosen ? "chosen" : null, onmouseenter: light(true), onmouseleave: light(false) },
      make("div", {}, make("span", { class: "label", title: candidate.command }, candidate.label), " ",
        chosen ? make("span", { class: "tag chosen" }, "chosen") : null,
        chosen && step.explored ? make("span", { class: "tag" }, "explored") : null,
        index === 0 && step.candidates.length > 1 ? make("span", { class: "tag" }, "proposed first") : null),
      candidate.thought ? make("div", { class: "thought" }, candidate.thought) : null,
      candidate.note ? make("div", { class: "thought" }, `Note: ${candidate.note}`) : null,
      !ranked ? null : make("div", { class: "score" }, make("div", { class: "track" }, bar), make("span", {}, `score ${number(candidate.score)}`)),
      candidate.log_prob === null ? null : make("div", { class: "log" }, `log-prob ${number(candidate.log_prob, 2)}`));
  });
  return make("div", { class: "turn" }, view, make("div", {},
    make("ol", { class: "candidates" }, ...cards),
    step.value === null ? null : make("p", { class: "soft about below" }, `V of this page ${number(step.value)}`),
    step.reward > 0 ? make("p", { class: "soft about below" }, `Reward ${number(step.reward, 2)}`) : null));
}

function ending(row, replay) {
  const said = make("div", { class: "ending" }, make("div", {}, outcomeTag(word(row, OUTCOME)), ` after ${row[STEPS]} steps, reward ${number(row[REWARD], 2)}`),
    replay.reason ? make("p", { class: "soft" }, replay.reason) : null);
  return replay.final === null ? said : make("div", { class: "turn" }, screen(data.pages[replay.final], [], -1), said);
}

function screen(page, boxes, chosen) {
  const picture = page.picture === null ? null : data.pictures[page.picture];
  const frame = make("div", { class: "screen" },
    picture === null
      ? make("p", { class: "absent soft" }, page.size === null ? "No screenshot was taken: the page's text is below." : "This screenshot is not in the file.")
      : make("img", { src: picture, alt: `Screenshot of ${page.title}`, width: page.size[0], height: page.size[1] }));
  if (picture !== null) {
    boxes.forEach((box, index) => {
      if (box === null) return;
      const mark = make("div", { class: `box${index === chosen ? " chosen" : ""}`, "data-box": index });
      ["left", "top", "width", "height"].forEach((side, at) => {
        mark.style[side] = `${100 * box[at] / page.size[at % 2]}%`;
      });
      frame.append(mark);
    });
  }
  return make("div", {},
    page.error ? make("p", { class: "news" }, page.error) : null,
    ...page.notices.map((notice) => make("p", { class: "news notice" }, notice)),
    make("div", { class: "address", title: page.url }, page.title ? `${page.title} — ${page.url}` : page.url), frame,
    make("details", { open: picture === null }, make("summary", {}, "What the agent read"), make("pre", {}, page.text)));
}

/* ---- V, the chosen score and the others' over steps (Best-of-Q, Fig. 12) */

const finite = (values) => values.filter((value) => value !== null);
const scores = (replay) => finite(replay.steps.flatMap((step) => step.candidates.map((candidate) => candidate.score)));

/* Prompting and Random action score all candidates alike: no chart, no bars. */
const ranks = (replay) => new Set(scores(replay)).size > 1 || replay.steps.some((step) => step.value !== null);

function range(replay) {
  const all = scores(replay);
  return all.length === 0 ? [0, 1] : [Math.min(0, ...all), Math.max(...all, 1e-9)];
}

function chart(replay) {
  const values = finite(replay.steps.map((step) => step.value));
  if (!ranks(replay)) return null;
  const width = Math.max(byId("replay").clientWidth - 46, 280), height = 170, left = 44, right = 12, top = 22, bottom = 22;
  const all = [...scores(replay), ...values], spread = Math.max(...all) - Math.min(...all) || 1;
  const low = Math.min(...all) - 0.08 * spread, high = Math.max(...all) + 0.08 * spread;
  const slot = (width - left - right) / replay.steps.length;
  const x = (step) => left + slot * (step + 0.5);
  const y = (value) => top + (height - top - bottom) * (high - value) / (high - low);
  const points = (of) => replay.steps.map((step, index) => [of(step), index])
    .filter(([value]) => value !== null).map(([value, index]) => `${x(index)},${y(value)}`).join(" ");
  const chosen = (step) => step.candidates[step.chosen].score;
  const nodes = [];
  if (now.step < replay.steps.length)
    nodes.push(draw("rect", { class: "now", x: left + slot * now.step, y: top, width: slot, height: height - top - bottom, rx: 4 }));
  for (const part of [0, 0.5, 1]) {
    const value = low + (high - low) * part;
    nodes.push(draw("line", { class: "rule", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(2)));
  }
  replay.steps.forEach((step, index) => step.candidates.forEach((candidate, at) => {
    if (at !== step.chosen && candidate.score !== null)
      nodes.push(draw("circle", { class: "other", cx: x(index), cy: y(candidate.score), r: 3 }));
  }));
  nodes.push(draw("polyline", { class: "value", points: points((step) => step.value) }),
    draw("polyline", { class: "path", points: points(chosen) }));
  replay.steps.forEach((step, index) => {
    if (chosen(step) !== null)
      nodes.push(draw("circle", { class: `taken${step.explored ? " explored" : ""}`, cx: x(index), cy: y(chosen(step)), r: 4.2 }));
    if (slot >= 24 || index % 5 === 4)
      nodes.push(draw("text", { x: x(index), y: height - 6, "text-anchor": "middle" }, String(index + 1)));
  });
  replay.steps.forEach((step, index) => nodes.push(draw("rect",
    { class: "hit", x: left + slot * index, y: 0, width: slot, height, onclick: () => go(index) },
    draw("title", {}, `Step ${index + 1}: ${step.candidates[step.chosen].label}`))));
  nodes.push(...legend(left, values.length > 0));
  return draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "V, the chosen candidate's score and the others' over steps" }, ...nodes);
}

function legend(left, hasValue) {
  const nodes = [draw("circle", { class: "taken", cx: left + 5, cy: 9, r: 4.2 }), draw("text", { x: left + 14, y: 13 }, "chosen"),
    draw("circle", { class: "other", cx: left + 75, cy: 9, r: 3 }), draw("text", { x: left + 83, y: 13 }, "other candidates")];
  if (hasValue) nodes.push(draw("polyline", { class: "value", points: `${left + 190},9 ${left + 214},9` }), draw("text", { x: left + 220, y: 13 }, "V"));
  return nodes;
}

/* ---- begin */

function choices(id, column, all) {
  const found = [...new Set(data.episodes.map((row) => word(row, column)))].sort();
  byId(id).replaceChildren(make("option", { value: "" }, all), ...found.map((name) => make("option", { value: name }, id === "outcome" ? name.replace("_", " ") : name)));
}

choices("agent", AGENT, "All agents");
choices("outcome", OUTCOME, "All outcomes");
choices("split", SPLIT, "All splits");
for (const id of ["find", "agent", "outcome", "split", "only"])
  byId(id).addEventListener("input", () => { now.shown = PER_VIEW; list(); });
byId("more").addEventListener("click", () => { now.shown += PER_VIEW; list(); });
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select")) return;
  const step = { ArrowLeft: now.step - 1, ArrowRight: now.step + 1 }[event.key];
  if (step === undefined || now.row === null) return;
  event.preventDefault();
  go(step);
});

addEventListener("resize", () => { if (now.row !== null) show(); });

function openAsked() {
  const [id, step] = location.hash.slice(1).split("/");
  const row = data.episodes.find((row) => row[ID] === id && id in data.replays);
  if (row === undefined) return false;
  open(row, 0);
  go(Number(step) - 1 || 0);
  return true;
}
addEventListener("hashchange", openAsked); // a link to another episode of this page

function begin() {
  byId("only").checked = data.episodes.some((row) => row[ID] in data.replays);
  list();
  const row = data.episodes.find((row) => row[ID] in data.replays);
  if (openAsked()) return;
  if (row) open(row, 0);
  else byId("replay").append(make("p", { class: "soft" }, "This file holds no replay."));
}
begin();
