"use strict";
/* What links and forms cannot do: keys, pages that grow, filters that apply themselves, trees that unfold at once.
   What is fetched is the same page again; its parts that differ take the place of the old ones. */

const offline = document.documentElement.hasAttribute("data-offline"); // files: each step is a page of its own
const EVERY = 1000; // milliseconds between two looks at a page that may grow
let tag = null;
let shown = location.pathname + location.search;
let doing = Promise.resolve(); // one fetch after the other, in the order they were asked for

/* Puts `again` in the place of a part: what is chosen in it, and how far it is scrolled, stays. */
function replace(part, again) {
  const held = document.activeElement;
  const same = ({ name, value }) => again.querySelector(`input[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`);
  for (const radio of part.querySelectorAll("input[type=radio]:checked")) {
    const there = same(radio);
    if (there) there.checked = true;
  }
  const boxes = (within) => [within, ...within.querySelectorAll(".scroll, pre")];
  const places = boxes(part).map((box) => [box.scrollLeft, box.scrollTop]);
  const focused = part.contains(held) && held.type === "radio";
  part.replaceWith(again);
  boxes(again).forEach((box, index) => box.scrollTo(...(places[index] ?? [0, 0])));
  if (focused) same(held)?.focus();
}

function renew(parsed, moved) {
  document.title = parsed.title;
  const [old, fresh] = [document.querySelector("main"), parsed.querySelector("main")];
  old.toggleAttribute("data-live", fresh.hasAttribute("data-live"));
  for (const details of old.querySelectorAll("details[id]")) {
    const again = fresh.querySelector(`details[id="${CSS.escape(details.id)}"]`);
    if (again) again.open = details.open;
  }
  const parts = (main) => [...main.querySelectorAll("[data-part]")];
  const names = (main) => parts(main).map((part) => part.id).join();
  if (names(old) !== names(fresh)) {
    old.replaceChildren(...fresh.childNodes);
    return;
  }
  const held = document.activeElement?.dataset?.key;
  for (const part of parts(old)) {
    const again = fresh.querySelector(`[data-part][id="${CSS.escape(part.id)}"]`);
    const busy = part.contains(document.activeElement) && (part.matches("form") || document.activeElement.matches("select"));
    if (part.isEqualNode(again)) continue;
    if (busy) tag = null; // the next look sees it again
    else if (moved) part.replaceWith(again);
    else replace(part, again);
  }
  if (held && document.activeElement === document.body) keyed(held)?.focus();
}

/* Shows an address in the place of this page, unless the server says that nothing is new there. */
async function show(address, headers) {
  const lost = (is) => document.querySelector("main").toggleAttribute("data-lost", is);
  const answer = await fetch(address, { headers, cache: "no-store" }).catch((error) => {
    lost(true);
    throw error;
  });
  lost(false);
  if (answer.status === 304) return;
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  const text = await answer.text();
  const moved = address !== location.href;
  if (moved) history.pushState(null, "", address);
  shown = location.pathname + location.search;
  tag = answer.headers.get("ETag");
  renew(new DOMParser().parseFromString(text, "text/html"), moved);
}

const inTurn = (job) => {
  doing = doing.then(job).catch(() => {});
};
const follow = (address) => (offline ? location.assign(address) : show(address, {}).catch(() => location.assign(address)));
const keyed = (key) => document.querySelector(`a[href][data-key="${CSS.escape(key)}"]`);

function look() {
  setTimeout(look, EVERY);
  if (document.hidden || !document.querySelector("main[data-live]")) return;
  inTurn(() => show(location.href, tag ? { "If-None-Match": tag } : {}));
}

addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input:not([type=checkbox]), select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const link = keyed(event.key);
  const box = document.querySelector(`input[data-toggle="${CSS.escape(event.key)}"]`);
  const field = document.querySelector(`input[data-focus="${CSS.escape(event.key)}"]`);
  if (!link && !box && !field) return;
  event.preventDefault();
  if (box) box.click();
  else if (field) field.focus();
  else if (!link.closest(".steps")) location.assign(link.href);
  else inTurn(() => keyed(event.key) && follow(keyed(event.key).href));
});

addEventListener("click", (event) => {
  if (event.target.closest?.(".turn .picture")) document.getElementById("zoom")?.click();
  const fold = event.target.closest?.("[data-fold]")?.dataset.fold;
  if (fold) for (const details of document.querySelectorAll(".tree details")) details.open = fold === "open";
  const link = event.target.closest?.(".steps a, .chart a");
  if (!link || offline || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const address = new URL(link.getAttribute("href"), location.href).href;
  inTurn(() => follow(address));
});

addEventListener("change", (event) => {
  if (event.target.matches("form.filters select, form.filters input[type=checkbox], .side-head select")) {
    event.target.form.requestSubmit();
  }
  if (event.target.matches("input[data-toggle]")) sessionStorage.setItem(event.target.id, event.target.checked);
});

/* In files, where no server narrows a list: rows that hold all the words. */
addEventListener("input", () => {
  const words = (document.querySelector("input[data-rows]")?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const linked = document.querySelector("input[data-linked]")?.checked;
  if (!offline) return;
  for (const row of document.querySelectorAll("table.rows tbody tr")) {
    const said = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => said.includes(word)) || (linked && !row.querySelector("a[href*='episode']"));
  }
});

addEventListener("popstate", () => {
  if (location.pathname + location.search !== shown) location.reload(); // else it is another place of this page
});
for (const box of document.querySelectorAll("input[data-toggle]")) box.checked = (sessionStorage.getItem(box.id) ?? String(box.defaultChecked)) === "true";
setTimeout(look, EVERY);
