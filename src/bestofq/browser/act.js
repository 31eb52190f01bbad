// Where to click, what to fill, how to scroll. Each answer is {…} or {error: sentence}.
"use strict";
Object.assign(globalThis.bestofq, (() => {
  const { $, disabled, editorOf, element, flatParent, frame: foreign, hostsEditing, is, isElement, isSvg, mapped, nameOf, placeOf, read, rectOf, squeeze, topmost, turns,
    styled, act: beginAct, unmarked, viewOf, within } = globalThis.bestofq;
  const TYPED = new Set(["text", "search", "email", "url", "tel", "password", "number"]); // fields that take key strokes
  const SET = new Set(["date", "time", "datetime-local", "month", "week", "range", "color"]);
  const FORMS = { date: "YYYY-MM-DD", time: "HH:MM", "datetime-local": "YYYY-MM-DDTHH:MM", month: "YYYY-MM",
    week: "YYYY-Www", range: "a number", color: "#rrggbb" };
  const fail = (error) => ({ error: error.toWellFormed() });
  const said = (text) => unmarked(squeeze(text)); // by the page

  function describe(el) {
    const name = said(el[$.getAttribute]("aria-label") || el[$.innerText] || el[$.alt] || "").slice(0, 60);
    const id = el[$.id] ? `#${said(el[$.id]).slice(0, 60)}` : "";
    return `<${el[$.localName]}${id}>${name ? ` "${name}"` : ""}`;
  }

  // The element under a point of the viewport, through shadow roots and same-origin frames.
  function under(x, y, root = document) {
    let hit = topmost(root, x, y);
    while (hit?.[$.shadowRoot]) {
      const inner = topmost(hit[$.shadowRoot], x, y);
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

  function reaches(hit, el) {
    for (let node = hit; node; node = flatParent(node)) {
      if (node === el || (is(node, "label") && node[$.control] === el)) return true;
    }
    return is(el, "label") && hit === el[$.control];
  }

  // The matrix from points of an element's document to those of the viewport; null where nobody can tell.
  function placeAround(el) {
    let place = new DOMMatrix();
    for (let frame = viewOf(el)?.frameElement; frame && place; frame = viewOf(frame).frameElement) {
      place = placeOf(frame)?.multiply(place);
    }
    return place;
  }

  // The point of the viewport where a point of a frame of another origin lies, scrolled into view.
  function outwards(index, x, y) {
    const el = foreign(index), place = () => placeAround(el)?.multiply(placeOf(el) || new DOMMatrix()).transformPoint({ x, y });
    if (!el?.[$.isConnected]) return fail("The frame is no longer on the page.");
    const seen = ({ x, y }) => x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;
    if (!seen(place())) el[$.scrollIntoView]({ block: "nearest", inline: "nearest", behavior: "instant" });
    if (!seen(place())) viewOf(el).scrollBy({ left: place().x - innerWidth / 2, top: place().y - innerHeight / 2, behavior: "instant" });
    const at = place(), hit = seen(at) && under(at.x, at.y);
    if (!hit) return fail("The frame cannot be scrolled into view.");
    return hit === el ? { x: at.x, y: at.y } : fail(`The frame is covered by ${describe(hit)}.`);
  }

  // The point of a frame of another origin that lies at a point of the viewport.
  function inwards(index, x, y) {
    const el = foreign(index);
    if (!el?.[$.isConnected] || under(x, y) !== el) return fail("The frame has moved away.");
    const at = placeAround(el).multiply(placeOf(el)).inverse().transformPoint({ x, y });
    return { x: at.x, y: at.y };
  }

  // The frame of another origin that has the focus; -1: none.
  function focusedFrame() {
    for (let index = 0; foreign(index); index++) if (foreign(index) === focused()) return { index };
    return { index: -1 };
  }

  const SPOTS = [[0.5, 0.5], [0.2, 0.5], [0.8, 0.5], [0.5, 0.2], [0.5, 0.8]]; // of a box
  const DENSE = Array.from({ length: 81 }, (_, at) => [(at % 9 + 0.5) / 9, (Math.floor(at / 9) + 0.5) / 9]); // for shapes with gaps

  // Points of the viewport to click; none where nobody can tell where its frame stands.
  function candidates(el) {
    const place = placeAround(el);
    if (!place) return [];
    const all = mapped(el) ? [rectOf(el)] : Array.from(el[$.getClientRects]());
    const rects = all.filter((rect) => rect.width >= 1 && rect.height >= 1);
    if (!rects.length) rects.push((el[$.firstElementChild] || el)[$.getBoundingClientRect]());
    return rects.flatMap(({ x, y, width, height }) => (isSvg(el) ? [...SPOTS, ...DENSE] : SPOTS)
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

  const CONTROLS = "a[href],button,input,select,textarea,summary,[role=button],[role=link],[onclick]"; // with a meaning of their own
  let aimed = null, missed = false; // the mark that the next click is meant for, and whether it had moved away by then

  // Keeps a click from what has come to the place of the element that it is meant for.
  for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"]) {
    addEventListener(type, (event) => {
      if (!event.isTrusted) return;
      if (aimed !== null && type.endsWith("down")) { // the first may be lost with the element that it was for
        const el = element(aimed), { clientX: x, clientY: y } = event;
        const here = ({ left, top, right, bottom }) => left <= x && x <= right && top <= y && y <= bottom;
        const [hit] = event.composedPath(), own = reaches(hit, el), control = !own && hit[$.closest]?.(CONTROLS);
        const over = control && ![control, ...control[$.querySelectorAll]("*")].includes(el);
        missed = !own && (over || !(mapped(el) ? [rectOf(el)] : Array.from(el[$.getClientRects]())).some(here));
        aimed = null;
      }
      if (missed) event.preventDefault(), event.stopImmediatePropagation();
    }, true);
  }

  // A point where a click meets the element and nothing that covers it.
  async function clickPoint(ref) {
    [aimed, missed] = [null, false];
    const { el, error } = resolve(ref);
    if (error) return fail(error);
    if (styled() || document[$.getAnimations]().length) await still(el);
    if (is(el, "select")) {
      const options = Array.from(el[$.options], (option) => `"${said(option.label)}"`);
      return fail(`${nameIn(ref, el)} is a list: write one of its options: ${listed(options)}.`);
    }
    const download = Boolean(el[$.closest]("a[download]"));
    if (Array.isArray(ref)) return { x: ref[0], y: ref[1], download };
    if (disabled(el)) focused()?.[$.blur]?.(), await still(el); // as a hand does: some pages check a field only then
    if (disabled(el)) return fail(`Element [${ref}] is disabled.`);
    if (!inView(el)) (mapped(el) || el)[$.scrollIntoView]({ block: "center", inline: "nearest", behavior: "instant" });
    let cover = null;
    for (const { x, y } of candidates(el)) {
      const hit = under(x, y);
      if (hit && reaches(hit, el)) return aimed = ref, { x, y, download };
      cover ||= hit;
    }
    return fail(cover ? `Element [${ref}] is covered by ${describe(cover)}.`
      : `Element [${ref}] cannot be scrolled into view.`);
  }

  const listed = (words) => words.slice(0, 20).join(", ") + (words.length > 20 ? `, and ${words.length - 20} more` : "");

  function choose(ref, el, text, may) {
    const options = Array.from(el[$.options]), wanted = squeeze(text);
    if (!wanted && el[$.multiple]) {
      for (const option of options) option.selected = false;
      return changed(el);
    }
    const same = (left, right) => left.toLowerCase() === right.toLowerCase();
    const beginning = (part) => options.filter((option) => part && same(squeeze(option.label).slice(0, part.length), part));
    const find = (part) => options.find((option) => [squeeze(option.label), said(option.label)].includes(part))
      || options.find((option) => option.value === part) || options.find((option) => same(squeeze(option.label), part))
      || (beginning(part).length === 1 ? beginning(part)[0] : null);
    let parts = [find(text) ? text : wanted];
    if (el[$.multiple] && !find(parts[0])) parts = text.split(/[\n;,]/).map(squeeze).filter(Boolean);
    const chosen = parts.map(find), missing = parts[chosen.findIndex((option) => !option)];
    const begins = beginning(missing), names = [...begins, ...options.filter((option) => !begins.includes(option))];
    if (!chosen.every(Boolean)) {
      const listing = listed(names.map((option) => `"${said(option.label)}"`));
      return fail(`${nameIn(ref, el)} has no option "${missing}"; its options are ${listing}.`);
    }
    const off = chosen.find((option) => option.disabled);
    if (off) return fail(`The option "${said(off.label)}" is disabled.`);
    if (!may) return { options: chosen.map((option) => said(option.label)).join(", ") };
    el[$.focus]({ preventScroll: true });
    if (el[$.multiple]) for (const option of chosen) option.selected = true;
    else el[$.value] = chosen[0].value, el[$.selectedIndex] = chosen[0].index;
    return changed(el);
  }

  function changed(el) {
    el[$.dispatchEvent](new Event("input", { bubbles: true, composed: true }));
    el[$.dispatchEvent](new Event("change", { bubbles: true }));
    return { done: true };
  }

  // Moves a slider away and back by keys, if its page takes them: some pages take a value only at the end of a move.
  async function confirm(slider) {
    const wanted = slider[$.value], keys = ["ArrowUp", "ArrowDown"];
    if (Number(wanted) >= Number(slider[$.getAttribute]("max") ?? 100)) keys.reverse();
    for (const key of keys) {
      const untaken = slider[$.dispatchEvent](new KeyboardEvent("keydown", { key, code: key, bubbles: true, cancelable: true, composed: true }));
      slider[$.dispatchEvent](new KeyboardEvent("keyup", { key, code: key, bubbles: true, composed: true }));
      if (untaken) break;
      await new Promise((resolve) => setTimeout(resolve));
    }
    if (slider[$.value] !== wanted) slider[$.value] = wanted, changed(slider);
  }

  // The field meant by an element: itself, its label's control, or the one it wraps.
  function fieldOf(el) {
    for (let node = el; isElement(node); node = flatParent(node)) {
      if (is(node, "input", "textarea", "select") || hostsEditing(node)) return node;
      if (is(node, "label") && node[$.control]) return node[$.control];
    }
    return el[$.querySelector]("input:not([type=hidden]),textarea,select");
  }

  const MONTH = /\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b\.?/i;
  const NUMBER = /^(\d{1,2})([-/. ])(\d{1,2})\2(\d{4})$/; // a date in numbers, the year last
  const two = (number) => String(number).padStart(2, "0");

  // "3 March 2026" as "2026-03-03", "March 2026" as "2026-03"; null for what can be read in two ways.
  function readDate(text) {
    const plain = text.replace(/\b(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?\b\.?,?|,|\bof\b/gi, " ").trim();
    const word = MONTH.exec(plain), year = /\b(\d{4})\b/.exec(plain)?.[1];
    const iso = /^(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?$/.exec(plain), month = /^(\d{1,2})[-/](\d{4})$/.exec(plain);
    if (iso) return [iso[1], ...iso.slice(2).filter(Boolean).map(two)].join("-");
    if (month) return `${month[2]}-${two(month[1])}`;
    if (word && year) {
      const days = Array.from(plain.matchAll(/\b(\d{1,2})(?:st|nd|rd|th)?\b/gi), (day) => day[1]);
      const at = "janfebmaraprmayjunjulaugsepoctnovdec".indexOf(word[1].toLowerCase()) / 3 + 1;
      return days.length < 2 ? [year, two(at), ...days.map(two)].join("-") : null;
    }
    const [, first, sign, second, whole] = NUMBER.exec(plain) || [];
    if (!whole || first !== second && sign !== "." && first <= 12 && second <= 12) return null;
    return first > 12 || sign === "." ? `${whole}-${two(second)}-${two(first)}` : `${whole}-${two(first)}-${two(second)}`;
  }

  // "3:30 pm" as "15:30".
  function readTime(text) {
    const [, hour, minute, second, half] = /^(\d{1,2})(?:[:.](\d\d))?(?::(\d\d))?\s*(?:([ap])\.?m\.?)?$/i.exec(text) || [];
    if (!hour || !minute && !half || half && (hour > 12 || hour < 1)) return null;
    const hours = half ? hour % 12 + (half.toLowerCase() === "p" ? 12 : 0) : hour;
    return [hours, minute || 0, ...(second ? [second] : [])].map(two).join(":");
  }

  // The value of a field whose form is fixed, from the words that people use; the words themselves if it is not clear.
  function readValue(type, text) {
    const words = squeeze(text);
    if (type === "time") return readTime(words) || words;
    if (type === "date" || type === "month") return readDate(words) || words;
    if (type !== "datetime-local") return text;
    const [, day, hour] = /^(.*?\S)(?:T|,? at |,? )(\d{1,2}(?:[:.]\d\d)*\s*(?:[ap]\.?m\.?)?)$/i.exec(words) || [];
    const [date, time] = [day && readDate(day), hour && readTime(hour)];
    return date && time ? `${date}T${time}` : words;
  }

  // Makes a field ready for text: in view, focused, all of it selected; or done, where text is not typed but set.
  // `may`: whether a list's option may be chosen; else its words are the answer.
  async function fill(ref, text, may = true) {
    const { el, error } = resolve(ref);
    if (error) return fail(error);
    const field = fieldOf(el);
    if (!field && el[$.getAttribute]("role") === "combobox") {
      return fail(`${nameIn(ref, el)} is a list that opens: click it, then click one of its options.`);
    }
    if (!field) return fail(`${nameIn(ref, el)} is no text field.`);
    if (disabled(field)) return fail(`${nameIn(ref, el)} is disabled.`);
    if (field[$.readOnly]) return fail(`${nameIn(ref, el)} is read-only.`);
    if (!inView(field)) field[$.scrollIntoView]({ block: "center", inline: "nearest", behavior: "instant" });
    if (is(field, "select")) return choose(ref, field, text, may);
    if (is(field, "input") && SET.has(field[$.type])) {
      field[$.focus]({ preventScroll: true });
      const before = field[$.value];
      field[$.value] = readValue(field[$.type], text);
      if (text && !field[$.value] || field[$.type] === "color" && field[$.value] !== text.toLowerCase()) {
        field[$.value] = before;
        return fail(`${nameIn(ref, el)} takes a ${field[$.type]} value, ${FORMS[field[$.type]]}, not "${text}".`);
      }
      changed(field);
      if (field[$.type] === "range") await confirm(field);
      return { done: true };
    }
    if (is(field, "input") && !TYPED.has(field[$.type])) {
      return fail(`${nameIn(ref, el)} is a ${field[$.type]}, no text field.`);
    }
    if (is(field, "input") && field[$.type] === "number" && text && !/^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i.test(text)) {
      return fail(`${nameIn(ref, el)} takes a number in digits, not "${text}".`);
    }
    const most = Number(field[$.getAttribute]("maxlength") ?? Infinity);
    if (is(field, "input", "textarea") && most > 1 && text.length > most) { // of 1: a code's digit, the next follow
      return fail(`${nameIn(ref, el)} takes at most ${most} characters; the text has ${text.length}.`);
    }
    field[$.focus]({ preventScroll: true });
    if (is(field, "input", "textarea")) field[$.select]();
    else field[$.ownerDocument][$.getSelection]().selectAllChildren(field);
    const drawn = Boolean(editorOf(field)), rich = drawn || !is(field, "input", "textarea");
    return { ready: true, before: drawn ? " " : contentOf(field), multiline: !is(field, "input"), rich, drawn };
  }

  // Whether an editor takes a text as pasted: it makes its own paragraphs of the lines.
  function paste(text) {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", text);
    const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true, composed: true });
    return { taken: !focused()[$.dispatchEvent](event) };
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

  // Scrolls the box that an element is or is in; without `ref` what lies at the viewport's centre, else the page, else
  // the largest box in view that can move.
  function scroll(across, down, ref = null) {
    const { el: meant, error } = ref === null ? {} : resolve(ref);
    if (error) return fail(error);
    const root = document[$.scrollingElement];
    const held = (el) => el && getComputedStyle(el)[down ? "overflowY" : "overflowX"] === "hidden";
    const moves = (el) => {
      if (el === root && (held(root) || held(document[$.body]))) return false; // people cannot scroll it
      const [left, top] = [el[$.scrollLeft], el[$.scrollTop]], whole = el === root;
      const width = whole ? innerWidth : el[$.clientWidth], height = whole ? innerHeight : el[$.clientHeight];
      el[$.scrollBy]({ left: across * width, top: down * height, behavior: "instant" });
      return el[$.scrollLeft] !== left || el[$.scrollTop] !== top;
    };
    const scrolls = (el) => {
      const style = getComputedStyle(el);
      return el !== el[$.ownerDocument][$.documentElement] && /auto|scroll/.test(down ? style.overflowY : style.overflowX);
    };
    const told = (el) => {
      const rest = down > 0 ? el[$.scrollHeight] - el[$.clientHeight] - el[$.scrollTop] : el[$.scrollTop];
      return { box: describe(el), left: down ? (rest / el[$.clientHeight]).toFixed(1) : "some" };
    };
    const side = down > 0 ? "down" : down < 0 ? "up" : across > 0 ? "right" : "left";
    for (let node = meant; isElement(node); node = flatParent(node)) if (scrolls(node) && moves(node)) return told(node);
    const inner = meant && Array.from(meant[$.querySelectorAll]("*")).find((el) => scrolls(el) && moves(el));
    if (inner) return told(inner);
    if (meant) return fail(`${nameIn(ref, meant)} is in no box that can scroll further ${side}.`);
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
    for (const el of boxes.sort((one, other) => area(other) - area(one))) if (moves(el)) return told(el);
    if (turns()) return { wheel: [innerWidth, innerHeight] };
    return fail(`The page cannot scroll further ${side}.`);
  }

  // Gives the focus to an element, or to the field that it is the label of.
  function focus(ref) {
    const { el, error } = resolve(ref);
    if (error) return fail(error);
    let field = fieldOf(el) || el;
    field[$.focus]();
    const inner = focused() !== field && el[$.querySelector]("[tabindex='0']:not(a,button,[role],[aria-label],[title])");
    if (inner && !inner[$.textContent].trim()) (field = inner)[$.focus](); // a slider's thumb
    return focused() === field ? { done: true } : fail(`${nameIn(ref, el)} cannot take the focus: click it instead.`);
  }

  function focused() {
    let hit = document[$.activeElement];
    for (let inner = hit; inner; inner = (inner[$.shadowRoot] || is(inner, "iframe") && within(inner))?.[$.activeElement]) {
      hit = inner;
    }
    return hit;
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
    const [page, marked] = read(textLimit, 0, true);
    const hidden = at && is(hit, "iframe", "frame", "object", "embed", "fencedframe");
    for (let node = hidden ? null : hit; node; node = flatParent(node)) {
      const mark = marked.indexOf(node) + 1 || is(node, "label") && marked.indexOf(node[$.control]) + 1;
      if (mark) return { page, mark };
    }
    return { page, mark: null, hidden };
  }

  // The page before Enter is pressed, and the mark there of what has the focus.
  function pressEnter(textLimit) {
    const [page, marked] = read(textLimit, 0, true);
    const hit = focused();
    return { page, mark: marked.indexOf(editorOf(hit) || hit) + 1 || null };
  }

  // Whether the last click on a mark was kept from what had come to its place.
  const hasMissed = () => ({ missed });

  // What a page makes of a call is no reason to fail here.
  const answering = (act) => async (...given) => {
    if (![content, hasMissed].includes(act)) beginAct(true);
    try { return await act(...given); } catch (error) { return fail(`The page did not allow it: ${error.message}`); }
  };
  const acts = Object.entries({ clickPoint, fill, paste, content, submit, scroll, focus, press, pressEnter, outwards, inwards,
    hasMissed });
  return { focusedFrame, under, ...Object.fromEntries(acts.map(([name, act]) => [name, answering(act)])) };
})());
