// Whether the page has answered: what it has changed, what it still waits for, and what never rests.
"use strict";
Object.assign(globalThis.bestofq, (() => {
  const { $, children, flatParent, is, isElement, squeeze, unmarked, within } = globalThis.bestofq;
  const QUIET = { known: 12, unknown: 25, asked: 60, fetched: 50, streamed: 400 }; // ms without a change
  const SOON = 1050; // ms: a timer that is waited for
  const LATE = 2500; // ms: a timer that is waited for while nothing has changed yet
  const RESTLESS = 1200; // ms for what repeats itself, and for a sign of work with no work behind it
  const UNHEARD = 200; // ms that the word of a request may take to the one who waits
  const FIRST = 700; // ms for the first change, if the page may change by what cannot be seen here
  const ANIMATED = 1500; // ms that an animation may last
  const OFTEN = 3; // changes of one place that make it restless
  const PAINT = /color|shadow|outline|fill|stroke|filter|decoration/; // transitions that move nothing
  const PRESSED = "button,a,input,label,summary,[role],[tabindex]";
  const BUSY = "[aria-busy=true],[role=progressbar],progress,[data-dash-is-loading=true],"
    + "[data-test-script-state=running],[data-test-script-state=rerunRequested],[data-testid=status-tracker] .progress-text"; // Streamlit, Gradio
  const SIGNS = `:is(${BUSY},[class*=skeleton i],[class*=spin i],[class*=shimmer i],[class*=load i],[class*=busy i],`
    + "[data-testid*=skeleton i]):not(svg *)"; // part of an icon
  const SIGN = /skeleton|spinner|shimmer|(^|[-_])(loading|loader|busy|spin)([-_]|$)/i;
  const WORDS = new RegExp("^((still |now )?\\p{L}+ing\\b.{0,40}(…|\\.{3})|(loading|please wait|one moment|just a moment)"
    + "( please)?\\W*|(wird geladen|bitte warten|chargement|cargando|carregando|caricamento|загрузка|読み込み中|加载中)\\W*)$", "iu");

  const now = () => performance.now();
  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const places = new WeakMap(); // node → how often it was changed
  const watched = new Set(); // documents and shadow roots
  const resigned = new WeakSet(); // signs of work that were waited for in vain
  const animated = new WeakSet(); // animations of before
  let round = 0, acted = false, waiting = false; // acts and waits so far, whether somebody acted since the last rest
  let begun = 0; // when the act or the wait began
  let rested = -Infinity; // when the page last came to rest
  let last = -Infinity, fresh = -Infinity; // the last change, and the last one of a place that is not restless
  let grown = -Infinity; // when something was last added without taking anything away
  let moved = -Infinity; // when a style was last changed
  let changed = false; // since the page last rested
  let pressed = null; // what was pressed last

  // A place is restless if it changed while nobody acted, or often in this wait. It grows if something is added and
  // nothing is taken away, as a text that is being written. What a press draws on the pressed (its focus, a ripple) is no
  // answer to it.
  function observe(records) {
    const at = now(), inside = new Set(), grows = new Map(), answers = new Set();
    for (const { type, target, addedNodes, removedNodes, attributeName, oldValue } of records) {
      if (attributeName === "style") { moved = at; continue; }
      for (const node of addedNodes) inside.add(node);
      let above = target, own = false;
      for (; above && !inside.has(above); above = above[$.parentNode]) own ||= above === pressed;
      if (above) continue; // part of what was just added
      const place = type === "characterData" ? target[$.parentNode] || target : target;
      const more = type === "childList" ? addedNodes.length && !removedNodes.length
        : type === "characterData" && oldValue && target[$.data].startsWith(oldValue);
      grows.set(place, Boolean(more) && grows.get(place) !== false);
      const spoken = type === "attributes" ? attributeName.startsWith("aria-")
        : type === "characterData" || [...addedNodes, ...removedNodes].some((node) => /\S/.test(node[$.textContent]));
      if (!own || spoken) answers.add(place);
    }
    for (const [node, more] of grows) {
      let place = places.get(node);
      if (!place) places.set(node, place = { at: -Infinity, before: -Infinity, idle: 0, times: 0, round });
      if (place.round !== round) Object.assign(place, { round, before: place.at, times: 0 });
      if (!waiting && at - rested > QUIET.streamed) place.idle += 1;
      place.times += !more;
      place.at = at;
      if (place.idle > 1 && begun - place.before < 3000) continue; // a clock
      last = at;
      if (waiting && answers.has(node)) changed = true;
      if (more) grown = at;
      if (more || place.times < OFTEN) fresh = at;
    }
  }
  const observer = new MutationObserver(observe);
  const all = { subtree: true, childList: true, characterData: true, characterDataOldValue: true, attributes: true };

  // Watches a document with its shadow roots and its frames of the same origin.
  function watch(root) {
    if (root === document) for (const one of watched) if (!(one[$.defaultView] || one[$.host]?.[$.isConnected])) watched.delete(one);
    if (!watched.has(root)) watched.add(root), observer.observe(root, all);
    for (const el of root[$.querySelectorAll]("*")) {
      const inner = el[$.shadowRoot] || is(el, "iframe", "frame") && within(el);
      if (inner) watch(inner);
    }
  }
  for (const type of ["input", "change", "toggle", "scroll"]) {
    addEventListener(type, (event) => { if (event.isTrusted && waiting) changed = true; }, true);
  }

  // Begins to wait, if the page was at rest or `anew`.
  function begin(at, anew = false) {
    if (waiting && !anew) return;
    observe(observer.takeRecords());
    [waiting, changed, begun] = [true, false, at];
    round += 1;
  }
  function act(anew = false) {
    begin(now(), anew);
    acted = true;
  }
  for (const type of ["pointerdown", "keydown", "wheel", "beforeinput"]) {
    addEventListener(type, (event) => {
      if (!event.isTrusted) return;
      act(event.key === "Enter"); // what was typed is no answer to it
      pressed = event.composedPath().find((el) => isElement(el) && el[$.matches](PRESSED)) || null;
    }, true);
  }

  const words = (shown) => `shows "${unmarked(shown[1])}"`;

  // Ends the wait: what is under way now is not waited for again. Answers what a reader must know of it.
  function finish(shown = sign()) {
    pulse("rested");
    for (const root of watched) for (const one of root[$.getAnimations]?.() || []) animated.add(one);
    if (shown) resigned.add(shown[0]);
    [waiting, acted, rested] = [false, false, now()];
    return empty() ? "is empty" : shown ? words(shown) : "";
  }

  // What the clocks of the page and its frames still have to do.
  function pulse(word) {
    const all = { waits: [], sincePassed: Infinity, sinceAsked: Infinity, sinceSent: Infinity, whole: true };
    for (const root of watched) {
      const view = root[$.defaultView];
      if (!view) continue;
      let told = null;
      view.addEventListener("bestofq:tell", ({ detail }) => { told = JSON.parse(detail); }, { once: true });
      view.dispatchEvent(new CustomEvent("bestofq:ask", { detail: word }));
      all.whole &&= Boolean(told?.whole);
      all.waits.push(...(told?.waits || []));
      for (const name of ["sincePassed", "sinceAsked", "sinceSent"]) all[name] = Math.min(all[name], told?.[name] ?? Infinity);
    }
    return all;
  }

  const inView = (el) => {
    const { top, left, bottom, right } = el[$.getBoundingClientRect]();
    return (bottom - top > 2 && right - left > 2 || el.ariaBusy === "true") && bottom > 0 && right > 0 && top < innerHeight && left < innerWidth
      && el[$.checkVisibility]({ opacityProperty: true, visibilityProperty: true });
  };

  // A visible sign of work under way that is not known to stay: its words, else its name; and whether more than the
  // name of its class says so.
  function sign() {
    for (const root of watched) {
      for (const el of root[$.querySelectorAll](SIGNS)) {
        const names = `${el[$.getAttribute]("class") || ""} ${el[$.getAttribute]("data-testid") || ""}`;
        const named = names.split(/\s+/).some((name) => SIGN.test(name));
        const measured = el[$.hasAttribute]("aria-valuenow") || is(el, "progress") && el[$.hasAttribute]("value");
        const busy = !measured && el[$.matches](BUSY);
        if (!named && !busy || resigned.has(el) || !inView(el)) continue;
        const whole = squeeze(el[$.textContent]), text = whole.length > 60 ? "" : whole.slice(0, 40), moving = el[$.getAnimations]({ subtree: true }).length > 0;
        return [el, text || "a sign of work", Boolean(busy || text || moving || /skeleton/i.test(names))];
      }
      const body = root[$.body] || root, walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
      for (let left = 3000; left > 0 && walker.nextNode(); left -= 1) {
        const node = walker.currentNode, text = node[$.data].trim();
        if (text.length < 5 || text.length > 60 || !WORDS.test(text)) continue;
        const el = flatParent(node);
        if (isElement(el) && !resigned.has(node) && !is(el, "option", "script", "style") && inView(el)) return [node, text, true];
      }
    }
    return null;
  }

  // Whether a page with scripts shows nothing yet.
  function empty() {
    if (!document[$.body] || location.protocol === "about:") return false;
    const drawn = "img,svg,canvas,video,iframe,input,button,select,textarea,embed,object";
    const shows = (root) => (root[$.body]?.[$.innerText] ?? root[$.textContent]).trim() || root[$.querySelector](drawn);
    const scripted = document[$.querySelector]("script") || performance.getEntriesByType("resource").length;
    return scripted && !Array.from(watched).some(shows);
  }

  // ms until the last animation of this wait ends.
  function animation() {
    let left = 0;
    for (const root of watched) {
      for (const one of root[$.getAnimations]?.() || []) {
        if (animated.has(one) || one.playState !== "running" || PAINT.test(one.transitionProperty || "")) continue;
        const { endTime } = one.effect?.getComputedTiming() || {}, time = (endTime - one.currentTime) / one.playbackRate;
        if (time > 0 && time <= ANIMATED) left = Math.max(left, time);
      }
    }
    return left;
  }

  // Waits until nothing that the page is known to do is under way, at most `limit` ms. `age`: ms since the act or since
  // the document was there; `load`: it is a new document; `open`: requests are under way; `heard`: ms since the last one
  // was known to begin; `lively`: streams or workers may change the page; `stream`: one of them was just begun;
  // `fetched`: a request has just ended; `instant`: only what is due at once is waited for. Answers why it is not calm, in words for a reader.
  async function rest({ limit, age, load, open, heard, lively, stream, fetched, instant }) {
    const start = now();
    begin(start - age);
    await Promise.race([new Promise(requestAnimationFrame), sleep(50)]);
    const idle = () => scheduler.postTask(() => {}, { priority: "background" }); // after all that is to be done at once
    for (let why = "";;) {
      await Promise.race([idle(), sleep(50)]);
      observe(observer.takeRecords());
      watch(document);
      const at = now(), gone = at - begun, { waits, sincePassed, sinceAsked, sinceSent, whole } = pulse();
      const patient = !instant, cap = patient && !load && !changed ? LATE : RESTLESS;
      let wait = 0;
      for (const [kind, left, delay, again] of waits) {
        const most = instant ? 50 : again || changed && !load ? SOON : LATE;
        if (delay > most || instant && again) continue;
        if (delay > SOON && !(load ? empty() : !changed)) continue;
        if (!again || gone < cap || at - grown < QUIET.streamed && !load) wait = Math.max(wait, kind === "timer" ? left + 4 : 17);
      }
      if (patient && gone < ANIMATED) wait = Math.max(wait, animation());
      const needs = stream ? QUIET.streamed : fetched ? QUIET.fetched : sinceAsked < 1000 || lively ? QUIET.asked
        : whole ? QUIET.known : QUIET.unknown;
      const still = gone > cap ? fresh : Math.max(last, at - sincePassed), quiet = needs - (at - Math.max(still, stream ? begun : start));
      const calm = quiet <= 0 && wait <= 0;
      why = calm ? "" : "changing";
      if (calm && patient) {
        const later = open || waits.some(([, left, , again]) => !again && left < 10_000);
        const shown = sign(), loaded = performance.timing.loadEventEnd;
        const blind = lively || sinceAsked < 1000 || !whole; // it may change by what cannot be seen here
        const young = !whole && (!loaded || at - loaded + performance.timeOrigin < SOON);
        if (empty() && (gone < RESTLESS || later || lively)) why = "is empty";
        else if (shown && (gone < RESTLESS || later || lively && (shown[2] || gone < LATE))) why = words(shown);
        else if (gone < RESTLESS && sinceSent < UNHEARD && heard + at - start > sinceSent) why = "has sent a request";
        else if (stream && !changed && gone < (load ? RESTLESS : LATE)) why = "silent";
        else if (acted && !load && !changed && blind && gone < FIRST) why = "unchanged";
        else if (load && young && gone < RESTLESS) why = "young";
        if (!why && !open) finish(shown);
      } else if (calm && !open) finish(null);
      if (!why) return { changed, why };
      if (at - start >= limit) return { changed, why };
      await sleep(Math.max(1, Math.min(limit - (at - start), 40, calm ? 40 : Math.max(quiet, wait))));
    }
  }

  // Resolves at the first change of a place that is not restless, at the latest after `limit` ms.
  async function change(limit) {
    const end = now() + limit, before = last;
    begin(now());
    watch(document);
    while (now() < end && last === before) await sleep(Math.min(20, end - now()));
    return { changed: last !== before };
  }

  return { roots: watched, rest, change, finish, act, styled: () => now() - moved < QUIET.streamed };
})());
