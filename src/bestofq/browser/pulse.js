// What the page has asked its clock for. It runs in the page's own world, before the page's scripts if it can, and
// answers rest.js by an event of the window, because the two worlds share nothing else.
"use strict";
(() => {
  const HERE = Symbol.for("bestofq:pulse");
  if (HERE in globalThis) return;
  Object.defineProperty(globalThis, HERE, { value: true });
  const whole = !document.head; // no script of the page ran before
  const BY_HAND = /^(click|dblclick|pointer|mouse|key|touch|wheel|scroll|input|beforeinput|change|submit|focus|blur)/;
  const IDLE = 400; // ms without a question of rest.js: nobody waits for what runs then
  const LOOP = 3; // a callback that asks for itself so often is a loop
  const { CustomEvent, JSON, Map, Math, Proxy, Reflect, String, performance } = globalThis;
  const tell = globalThis.dispatchEvent.bind(globalThis), now = performance.now.bind(performance);
  const pending = new Map(); // id with its kind → what was asked for
  const fired = new Map(), idle = new Map(); // source → how often it ran: since the last rest, and while nobody acted
  let generation = 0; // counts the page's rests
  let heard = now(), passed = -Infinity, asked = -Infinity; // the last question of rest.js, task passed on, work given away
  let sent = -Infinity; // the last request that a script sent
  let current = null; // the callback that runs, and what its promises continue
  const { port1, port2 } = new MessageChannel();
  const post = port2.postMessage.bind(port2);
  port1.onmessage = () => { current = null; };

  const count = (map, source) => map.set(source, (map.get(source) || 0) + 1);
  const known = (source) => (idle.get(source) || 0) > 1;

  function enter(entry) {
    current = entry;
    post(0); // after the callback and its promises
    count(fired, entry.source);
    if (!entry.byHand && now() - heard > IDLE) count(idle, entry.source);
  }

  // An entry belongs to the rest after which its chain of callbacks began.
  function add(id, kind, handler, delay, every) {
    const source = `${kind} ${delay} ${String(handler).slice(0, 200)}`, event = globalThis.event;
    const hand = Boolean(event?.isTrusted && BY_HAND.test(event.type)), above = hand ? null : current;
    const entry = { id, kind, source, delay, every, due: now() + delay, byHand: hand || Boolean(above?.byHand),
      loops: above?.source === source ? above.loops + 1 : 0, generation: above ? above.generation : generation };
    entry.old = above ? above.old : !hand && known(source);
    pending.set(`${kind}${id}`, entry);
    return entry;
  }

  function wrap(name, clear, kind, every) {
    const set = globalThis[name], unset = globalThis[clear];
    if (!set) return;
    const real = { [name](handler, wait, ...rest) {
      if (typeof handler !== "function") return Reflect.apply(set, globalThis, arguments);
      const delay = kind === "timer" ? Math.max(0, Number(wait) || 0) : 0;
      let entry = null;
      const run = function (...given) {
        if (entry) {
          if (every) entry.due = now() + delay, entry.loops += 1;
          else pending.delete(`${kind}${entry.id}`);
          enter(entry);
        }
        return Reflect.apply(handler, this, given);
      };
      const id = Reflect.apply(set, globalThis, arguments.length < 2 ? [run] : [run, wait, ...rest]);
      entry = add(id, kind, handler, delay, every);
      return id;
    }, [clear](id) {
      pending.delete(`${kind}${id}`);
      return Reflect.apply(unset, globalThis, arguments);
    } };
    globalThis[name] = real[name];
    if (!every) globalThis[clear] = real[clear];
  }
  wrap("setTimeout", "clearTimeout", "timer", false);
  wrap("setInterval", "clearInterval", "timer", true);
  globalThis.clearInterval = globalThis.clearTimeout; // one list for both
  wrap("requestAnimationFrame", "cancelAnimationFrame", "frame", false);
  wrap("requestIdleCallback", "cancelIdleCallback", "idle", false);

  // Work that is passed on, to a later task or to whoever answers by no request and no timer: workers, databases, files.
  for (const [owner, ...names] of [["Worker", "postMessage"], ["MessagePort", "postMessage"], ["IDBFactory", "open"],
    ["IDBObjectStore", "get", "getAll", "put"], ["FileReader", "readAsText", "readAsDataURL"], ["ServiceWorker", "postMessage"], ["XMLHttpRequest", "send"]]) {
    const prototype = globalThis[owner]?.prototype;
    for (const name of prototype ? names : []) {
      const real = prototype[name];
      prototype[name] = { [name](...given) {
        if (owner === "XMLHttpRequest") sent = now();
        else passed = now();
        if (!/MessagePort|XMLHttpRequest/.test(owner)) asked = passed;
        return Reflect.apply(real, this, given);
      } }[name];
    }
  }

  const { fetch } = globalThis;
  if (fetch) globalThis.fetch = { fetch(...given) {
    sent = now();
    return Reflect.apply(fetch, this, given);
  } }.fetch;

  // A closed shadow root would hide what people see in it.
  const { attachShadow } = Element.prototype;
  Element.prototype.attachShadow = { attachShadow(init) {
    return Reflect.apply(attachShadow, this, [init && { ...init, mode: "open" }]);
  } }.attachShadow;

  for (const name of ["Worker", "SharedWorker", "EventSource", "WebSocket"]) {
    globalThis[name] &&= new Proxy(globalThis[name], { construct(...given) {
      asked = now();
      return Reflect.construct(...given);
    } });
  }

  globalThis.addEventListener("bestofq:ask", ({ detail }) => {
    const waits = [];
    for (const entry of pending.values()) {
      if (entry.generation !== generation || entry.old) continue;
      const { kind, delay, due, every, loops } = entry;
      waits.push([kind, Math.max(0, due - now()), delay, every || loops >= LOOP]);
    }
    heard = now();
    const [sincePassed, sinceAsked, sinceSent] = [passed, asked, sent].map((at) => Math.min(1e6, heard - at));
    if (detail === "rested") {
      for (const [source, times] of fired) if (times >= LOOP) idle.set(source, LOOP);
      fired.clear();
      generation += 1;
    }
    tell(new CustomEvent("bestofq:tell", { detail: JSON.stringify({ waits, sincePassed, sinceAsked, sinceSent, whole }) }));
  });
})();
