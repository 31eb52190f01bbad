// Which elements a click means something to, by the browser's own list of listeners. Runs in the page's own world with
// DevTools' command line API, which does not reach into frames. The elements reach dom.js's world as targets of events.
"use strict";
(() => {
  const TYPES = ["click", "mousedown", "mouseup", "pointerdown", "pointerup", "touchend"];
  const MANY = 16; // a node that listens to so many types is the root of a framework
  const MOST = { elements: 20_000, heard: 2_000 };
  const NATIVE = "a[href],button,input,select,textarea,option,label,summary,script,style";
  const LISTS = "ul,ol,dl,table,tbody,[role=list],[role=listbox],[role=menu],[role=tree],[role=grid],[role=rowgroup]";
  const ROWS = "tr,li,dt,article,[tabindex],[data-id],[data-key],[data-index],[data-value],[role=option],[role=row]";
  const SILENT = /^[^{]{0,40}\{?\s*(return )?\w+\.(stopPropagation|stopImmediatePropagation|preventDefault)\(\);?\s*\}?$/;
  const OUTSIDE = /target\s*[!=]==?|[!=]==?\s*\w+\.target|currentTarget\s*[!=]==?|\.contains\(|:\s*not\(/;
  const heard = new Set(), over = new Set();
  const source = (listener) => { try { return Function.prototype.toString.call(listener); } catch { return ""; } };

  // What a listener looks for above or at the target of its event, as selectors.
  function selectors(text) {
    const asked = Array.from(text.matchAll(/\.(?:closest|matches|is)\(\s*(["'`])(.{1,200}?)\1/g), (match) => match[2]);
    for (const [, name] of text.matchAll(/classList\.contains\(\s*["'`]([\w-]+)/g)) asked.push(`.${name}`);
    for (const [, name] of text.matchAll(/(?:tagName|nodeName|localName)\b[^"'`;]{0,30}["'`]([a-z][\w-]*)/gi)) asked.push(name);
    for (const [, name] of text.matchAll(/target\.dataset\.(\w+)/g)) {
      asked.push(`[data-${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}]`);
    }
    return asked;
  }

  // The parts of a list that stand side by side: its outermost rows, else its children.
  function items(list) {
    const rows = Array.from(list.querySelectorAll(ROWS)).filter((el) => {
      const above = el.parentElement.closest(ROWS);
      return !above || above === list || above.contains(list);
    });
    if (rows.length > 1) return rows;
    let box = list;
    while (box.childElementCount === 1) box = box.firstElementChild;
    const parts = Array.from(box.children);
    return parts.length > 1 && parts.every((part) => part.localName === parts[0].localName) ? parts : [];
  }

  function add(el) {
    if (heard.size < MOST.heard && !el.matches(NATIVE)) heard.add(el);
    return heard.has(el);
  }

  // Whether there is any.
  function addAsked(root, asked) {
    const there = asked.flatMap((selector) => {
      try { return Array.from(root.querySelectorAll(selector)); } catch { return []; } // a selector of a library's own
    });
    return there.filter(add).length > 0;
  }

  function listen(node) {
    const all = getEventListeners(node), types = Object.keys(all);
    wheels ||= types.includes("wheel") || types.includes("mousewheel");
    const listeners = TYPES.flatMap((type) => (all[type] || []).map(({ listener }) => ({ type, listener })));
    const whole = node.nodeType !== 1 || /^(html|body)$/.test(node.localName) || types.length > MANY;
    if (!whole && types.some((type) => /^(mouse|pointer)(enter|over)$/.test(type))) over.add(node);
    let own = Boolean(node.$$click || node.__click); // Solid's and Svelte's
    for (const { type, listener } of listeners) {
      const text = source(listener), asked = selectors(text);
      if (addAsked(node, asked)) continue;
      const given = /jQuery|\.event\.triggered/.test(text) && globalThis.jQuery?._data
        ? TYPES.flatMap((type) => Array.from(jQuery._data(node, "events")?.[type] || [])) : [];
      if (given.length && (/jQuery/.test(text) || given.some(({ selector }) => selector))) {
        addAsked(node, given.map(({ selector }) => selector).filter(Boolean));
        own ||= given.some(({ selector, handler, type }) => !selector && type === "click" && !SILENT.test(source(handler)));
      } else if (!whole && type !== "click") {
        own ||= /\S/.test(node.textContent) && node.childElementCount < 2; // and no place to drag in
      } else if (!whole && !SILENT.test(text) && !OUTSIDE.test(text)) {
        const parts = /\.target\b|composedPath/.test(text) || node.matches(LISTS) ? items(node) : [];
        if (parts.length) parts.forEach(add);
        else own = true;
      }
    }
    if (own && !whole) add(node);
  }

  let wheels = Object.keys(getEventListeners(globalThis)).some((type) => /wheel/.test(type));
  let left = MOST.elements;
  function visit(root) {
    listen(root);
    for (const el of root.querySelectorAll("*")) {
      if (left-- <= 0) return;
      listen(el);
      if (el.shadowRoot) visit(el.shadowRoot);
    }
  }
  try { visit(document); } catch { /* what a page has replaced */ }
  dispatchEvent(new Event("bestofq:heard"));
  if (wheels) dispatchEvent(new Event("bestofq:wheel"));
  for (const el of heard) el.dispatchEvent(new Event("bestofq:heard", { composed: true }));
  for (const el of over) el.dispatchEvent(new Event("bestofq:over", { composed: true }));
})();
