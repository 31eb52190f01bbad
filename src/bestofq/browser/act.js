// Where to click, what to fill, how to scroll. Each answer is {…} or {error: sentence}.
"use strict";
Object.assign(globalThis.bestofq, (() => {
  const { $, element, flatParent, hostsEditing, is, isElement, mapped, nameOf, placeOf, read, rectOf, squeeze,
    styled, act: beginAct, unmarked, viewOf, within } = globalThis.bestofq;
  const TYPED = new Set(["text", "search", "email", "url", "tel", "password", "number"]); // fields that take key strokes
  const SET = new Set(["date", "time", "datetime-local", "month", "week", "range", "color"]);
  const fail = (error) => ({ error: error.toWellFormed() });
  const said = (text) => unmarked(squeeze(text)); // by the page

  function describe(el) {
    const name = said(el[$.getAttribute]("aria-label") || el[$.innerText] || el[$.alt] || "").slice(0, 60);
    const id = el[$.id] ? `#${said(el[$.id]).slice(0, 60)}` : "";
    return `<${el[$.localName]}${id}>${name ? ` "${name}"` : ""}`;
  }

  // The element under a point of the viewport, through shadow roots and same-origin frames.
  function under(x, y, root = document) {
    let hit = root[$.elementFromPoint](x, y);
    while (hit?.[$.shadowRoot]) {
      const inner = hit[$.shadowRoot][$.elementFromPoint](x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    const inner = hit && is(hit, "iframe", "frame") && within(hit), place = inner && placeOf(hit);
    if (!place) return hit;
    const point = place.inverse().transformPoint({ x, y });
    return under(point.x, point.y, inner) || hit;
  }

  // `ref` is a mark (number) or a point [x, y] of the viewport.
  function resolve(ref) {
    if (Array.isArray(ref)) {
      const [x, y] = ref;
      if (!(x >= 0 && y >= 0 && x < innerWidth && y < innerHeight)) {
        return fail(`The point (${x}, ${y}) is outside the viewport of ${innerWidth} x ${innerHeight} pixels.`);
      }
      const hit = under(x, y);
      return hit ? { el: hit } : fail(`Nothing lies at the point (${x}, ${y}).`);
    }
    const el = element(ref);
    if (!el) return fail(`There is no element [${ref}] on this page.`);
    if (!el[$.isConnected] || !mapped(el) && !el[$.getClientRects]().length && !el[$.firstElementChild]) {
      return fail(`Element [${ref}] is no longer on the page.`);
    }
    return { el };
  }

  const nameIn = (ref, el) => (Array.isArray(ref) ? describe(el) : `Element [${ref}]`);
  const disabled = (el) => el[$.matches](":disabled") || el[$.getAttribute]("aria-disabled") === "true";

  function reaches(hit, el) {
    for (let node = hit; node; node = flatParent(node)) {
      if (node === el || (is(node, "label") && node[$.control] === el)) return true;
    }
    return is(el, "label") && hit === el[$.control];
  }

  // Points of the viewport to click; none where nobody can tell where its frame stands.
  function candidates(el) {
    let place = new DOMMatrix();
    for (let frame = viewOf(el)?.frameElement; frame && place; frame = viewOf(frame).frameElement) {
      place = placeOf(frame)?.multiply(place);
    }
    if (!place) return [];
    const all = mapped(el) ? [rectOf(el)] : Array.from(el[$.getClientRects]());
    const rects = all.filter((rect) => rect.width >= 1 && rect.height >= 1);
    if (!rects.length) rects.push((el[$.firstElementChild] || el)[$.getBoundingClientRect]());
    return rects.flatMap(({ x, y, width, height }) => [[0.5, 0.5], [0.2, 0.5], [0.8, 0.5], [0.5, 0.2], [0.5, 0.8]]
      .map(([across, down]) => place.transformPoint({ x: x + width * across, y: y + height * down })));
  }

  function inView(el) {
    const [at] = candidates(el);
    return at && at.x >= 0 && at.y >= 0 && at.x < innerWidth && at.y < innerHeight && reaches(under(at.x, at.y), el);
  }

  // Resolves once the element has not moved for 20 ms, at the latest after half a second.
  async function still(el) {
    const end = performance.now() + 500;
    for (let before = ""; performance.now() < end;) {
      const { x, y, width, height } = el[$.getBoundingClientRect](), now = [x, y, width, height].join();
      if (now === before) return;
      before = now;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  // A point where a click meets the element and nothing that covers it.
  async function clickPoint(ref) {
    const { el, error } = resolve(ref);
    if (error) return fail(error);
    if (styled() || document[$.getAnimations]().length) await still(el);
    if (is(el, "select")) {
      const options = Array.from(el[$.options], (option) => `"${said(option.label)}"`);
      return fail(`${nameIn(ref, el)} is a list: write one of its options: ${listed(options)}.`);
    }
    if (Array.isArray(ref)) return { x: ref[0], y: ref[1] };
    if (disabled(el)) return fail(`Element [${ref}] is disabled.`);
    if (!inView(el)) (mapped(el) || el)[$.scrollIntoView]({ block: "center", inline: "nearest", behavior: "instant" });
    let cover = null;
    for (const { x, y } of candidates(el)) {
      const hit = under(x, y);
      if (hit && reaches(hit, el)) return { x, y };
      cover ||= hit;
    }
    return fail(cover ? `Element [${ref}] is covered by ${describe(cover)}.`
      : `Element [${ref}] cannot be scrolled into view.`);
  }

  const listed = (words) => words.slice(0, 20).join(", ") + (words.length > 20 ? `, and ${words.length - 20} more` : "");

  function choose(ref, el, text) {
    const wanted = squeeze(text), options = Array.from(el[$.options]), near = wanted.toLowerCase();
    if (!wanted && el[$.multiple]) {
      for (const option of options) option.selected = false;
      return changed(el);
    }
    const same = (left, right) => left.toLowerCase() === right.toLowerCase();
    const begins = near ? options.filter((option) => squeeze(option.label).toLowerCase().startsWith(near)) : [];
    const only = begins.length === 1 ? begins[0] : null;
    const found = options.find((option) => [squeeze(option.label), said(option.label)].includes(wanted))
      || options.find((option) => option.value === text) || options.find((option) => same(squeeze(option.label), wanted)) || only;
    const names = [...begins, ...options.filter((option) => !begins.includes(option))].map((option) => `"${said(option.label)}"`);
    if (!found) return fail(`${nameIn(ref, el)} has no option "${wanted}"; its options are ${listed(names)}.`);
    if (found.disabled) return fail(`The option "${wanted}" is disabled.`);
    el[$.focus]({ preventScroll: true });
    if (el[$.multiple]) found.selected = true; else el[$.value] = found.value, el[$.selectedIndex] = found.index;
    return changed(el);
  }

  function changed(el) {
    el[$.dispatchEvent](new Event("input", { bubbles: true, composed: true }));
    el[$.dispatchEvent](new Event("change", { bubbles: true }));
    return { done: true };
  }

  // The field meant by an element: itself, its label's control, or the one it wraps.
  function fieldOf(el) {
    for (let node = el; isElement(node); node = flatParent(node)) {
      if (is(node, "input", "textarea", "select") || hostsEditing(node)) return node;
      if (is(node, "label") && node[$.control]) return node[$.control];
    }
    return el[$.querySelector]("input:not([type=hidden]),textarea,select");
  }

  // Makes a field ready for text: in view, focused, all of it selected; or done, where text is not typed but set.
  function fill(ref, text) {
    const { el, error } = resolve(ref);
    if (error) return fail(error);
    const field = fieldOf(el);
    if (!field) return fail(`${nameIn(ref, el)} is no text field.`);
    if (disabled(field)) return fail(`${nameIn(ref, el)} is disabled.`);
    if (field[$.readOnly]) return fail(`${nameIn(ref, el)} is read-only.`);
    if (!inView(field)) field[$.scrollIntoView]({ block: "center", inline: "nearest", behavior: "instant" });
    if (is(field, "select")) return choose(ref, field, text);
    if (is(field, "input") && SET.has(field[$.type])) {
      field[$.focus]({ preventScroll: true });
      const before = field[$.value];
      field[$.value] = text;
      if (text && !field[$.value] || field[$.type] === "color" && field[$.value] !== text.toLowerCase()) {
        field[$.value] = before;
        return fail(`${nameIn(ref, el)} takes a ${field[$.type]} value, not "${text}".`);
      }
      return changed(field);
    }
    if (is(field, "input") && !TYPED.has(field[$.type])) {
      return fail(`${nameIn(ref, el)} is a ${field[$.type]}, no text field.`);
    }
    field[$.focus]({ preventScroll: true });
    if (is(field, "input", "textarea")) field[$.select]();
    else field[$.ownerDocument][$.getSelection]().selectAllChildren(field);
    return { ready: true, before: contentOf(field), multiline: !is(field, "input") };
  }

  const contentOf = (field) => (is(field, "input", "textarea") ? field[$.value] : field[$.textContent]);

  // What a field holds now; nothing of what is no field any more.
  function content(ref) {
    const { el } = resolve(ref), field = el && fieldOf(el);
    return { content: field ? contentOf(field) : null };
  }

  // Submits the element's form as its first submit button would, validation included.
  function submit(ref) {
    const { el, error } = resolve(ref);
    if (error) return fail(error);
    const form = (fieldOf(el) || el)[$.form] || el[$.form] || el[$.closest]("form");
    if (!form) return fail(`${nameIn(ref, el)} belongs to no form.`);
    const fields = Array.from(form[$.elements]);
    const invalid = !form[$.noValidate] && fields.find((field) => field[$.willValidate] && !field[$.validity].valid);
    if (invalid) {
      const name = nameOf(invalid, "textbox")[0] || invalid[$.name];
      return fail(`The form cannot be submitted: "${name}": ${said(invalid[$.validationMessage]).slice(0, 200)}`);
    }
    const button = fields.find((field) => ["submit", "image"].includes(field[$.type]));
    if (button && disabled(button)) return fail("The form cannot be submitted: its submit button is disabled.");
    form[$.requestSubmit](button || null);
    return { done: true };
  }

  // Scrolls what lies at the viewport's centre, else the page, else the largest box in view that can move.
  function scroll(across, down) {
    const root = document[$.scrollingElement];
    const moves = (el) => {
      const [left, top] = [el[$.scrollLeft], el[$.scrollTop]], whole = el === root;
      const width = whole ? innerWidth : el[$.clientWidth], height = whole ? innerHeight : el[$.clientHeight];
      el[$.scrollBy]({ left: across * width, top: down * height, behavior: "instant" });
      return el[$.scrollLeft] !== left || el[$.scrollTop] !== top;
    };
    const scrolls = (el) => {
      const style = getComputedStyle(el);
      return el !== el[$.ownerDocument][$.documentElement] && /auto|scroll/.test(down ? style.overflowY : style.overflowX);
    };
    for (let node = under(innerWidth / 2, innerHeight / 2); isElement(node); node = flatParent(node)) {
      if (scrolls(node) && moves(node)) return { done: true };
    }
    if (root && moves(root)) return { done: true };
    const area = (el) => {
      const { left, top, right, bottom } = el[$.getBoundingClientRect]();
      const seen = [Math.min(right, innerWidth) - Math.max(left, 0), Math.min(bottom, innerHeight) - Math.max(top, 0)];
      return Math.max(0, seen[0]) * Math.max(0, seen[1]);
    };
    const boxes = Array.from(document[$.querySelectorAll]("*")).filter((el) => (el[$.scrollHeight] > el[$.clientHeight] + 1
      || el[$.scrollWidth] > el[$.clientWidth] + 1) && area(el) > 400 && scrolls(el));
    for (const el of boxes.sort((one, other) => area(other) - area(one))) {
      if (!moves(el)) continue;
      const rest = down > 0 ? el[$.scrollHeight] - el[$.clientHeight] - el[$.scrollTop] : el[$.scrollTop];
      return { box: describe(el), left: down ? (rest / el[$.clientHeight]).toFixed(1) : "some" };
    }
    return fail(`The page cannot scroll further ${down > 0 ? "down" : down < 0 ? "up" : across > 0 ? "right" : "left"}.`);
  }

  // The page at the press of an action, and the mark there of what will be pressed (null: of nothing that has one): the
  // element at `at`, where a click comes down, else the field or the form's element.
  function press(ref, at, textLimit) {
    const { el, error } = resolve(ref);
    if (error) return fail(error);
    let hit = el;
    if (at) {
      hit = under(...at);
      if (!hit || !Array.isArray(ref) && !reaches(hit, el)) return fail(`${nameIn(ref, el)} has moved away.`);
    }
    const [page, marked] = read(textLimit);
    for (let node = hit; node; node = flatParent(node)) {
      const mark = marked.indexOf(node) + 1 || is(node, "label") && marked.indexOf(node[$.control]) + 1;
      if (mark) return { page, mark };
    }
    return { page, mark: null };
  }

  // The page before Enter is pressed, and the mark there of what has the focus.
  function pressEnter(textLimit) {
    let hit = document[$.activeElement];
    for (let inner = hit; inner; inner = (inner[$.shadowRoot] || is(inner, "iframe") && within(inner))?.[$.activeElement]) {
      hit = inner;
    }
    const [page, marked] = read(textLimit);
    return { page, mark: marked.indexOf(hit) + 1 || null };
  }

  // What a page makes of a call is no reason to fail here.
  const answering = (act) => async (...given) => {
    beginAct(true);
    try { return await act(...given); } catch (error) { return fail(`The page did not allow it: ${error.message}`); }
  };
  const acts = Object.entries({ clickPoint, fill, content, submit, scroll, press, pressEnter });
  return { ...Object.fromEntries(acts.map(([name, act]) => [name, answering(act)])) };
})());
