"use strict";
/* What links and forms cannot do: keys, pages that grow, filters that apply themselves, trees that unfold at once.
   What is fetched is the same page again; its parts that differ take the place of the old ones. */

const EVERY = 1000; // milliseconds between two looks at a page that may grow
let tag = null;
let shown = location.pathname + location.search;
let doing = Promise.resolve(); // one fetch after the other, in the order they were asked for

function renew(parsed) {
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
    if (part.isEqualNode(again) || (part.contains(document.activeElement) && part.matches("form"))) continue;
    part.replaceWith(again);
  }
  if (held && document.activeElement === document.body) keyed(held)?.focus();
}

/* Shows an address in the place of this page, unless the server says that nothing is new there. */
async function show(address, headers) {
  const answer = await fetch(address, { headers, cache: "no-store" });
  if (answer.status === 304) return;
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  const text = await answer.text();
  if (address !== location.href) history.pushState(null, "", address);
  shown = location.pathname + location.search;
  tag = answer.headers.get("ETag");
  renew(new DOMParser().parseFromString(text, "text/html"));
}

const inTurn = (job) => {
  doing = doing.then(job).catch(() => {});
};
const follow = (address) => show(address, {}).catch(() => location.assign(address));
const keyed = (key) => document.querySelector(`a[data-key="${CSS.escape(key)}"]`);

function look() {
  setTimeout(look, EVERY);
  if (document.hidden || !document.querySelector("main[data-live]")) return;
  inTurn(() => show(location.href, tag ? { "If-None-Match": tag } : {}));
}

addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea")) {
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
  const fold = event.target.closest?.("[data-fold]")?.dataset.fold;
  if (fold) for (const details of document.querySelectorAll(".tree details")) details.open = fold === "open";
  const link = event.target.closest?.(".steps a, .chart a");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const address = new URL(link.getAttribute("href"), location.href).href;
  inTurn(() => follow(address));
});

addEventListener("change", (event) => {
  if (event.target.matches("form.filters select, form.filters input[type=checkbox], .side-head select")) {
    event.target.form.requestSubmit();
  }
});

addEventListener("popstate", () => {
  if (location.pathname + location.search !== shown) location.reload(); // else it is another place of this page
});
setTimeout(look, EVERY);
