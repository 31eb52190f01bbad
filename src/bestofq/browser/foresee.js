// When a page has come to rest, known ahead of the clock.
"use strict";
Object.assign(globalThis.bestofq, (() => {
  const { begun, settle } = globalThis.bestofq;
  const ELSEWHERE = 5; // ms in which workers, databases and sockets answer: no timer of the page's foretells them
  const FRAME = 17; // ms: with less left it may be the next frame that is foreseen, and no timer before it
  const LATER = 100; // ms after which the frames that follow a click are over
  const OFTEN = 5; // a look takes up to 50 ms
  let ours = 0;
  for (const name of ["setTimeout", "requestAnimationFrame", "requestIdleCallback"]) { // of this world alone
    const real = globalThis[name];
    globalThis[name] = (...given) => (ours += 1, real(...given));
  }

  // How many timers, frames and idle callbacks the page has asked for: Chromium numbers each kind of a document's in one
  // row, whoever asks.
  function asked() {
    const timer = setTimeout(() => {}), frame = requestAnimationFrame(() => {}), idle = requestIdleCallback(() => {});
    clearTimeout(timer);
    cancelAnimationFrame(frame);
    cancelIdleCallback(idle);
    return timer + frame + idle - ours;
  }
  let early = 0; // `asked` when nothing was due for as long as a page is waited for: what is newer may be due

  // Notes that nothing is due, when Chromium has said so often enough: of an interval it says so now and then too. Not
  // from an act on: after a click timers are held back, and none seems due.
  function notice(enough) {
    const before = begun();
    let often = 0, looks = 0;
    const look = (idle) => {
      often = idle.timeRemaining() < enough ? 0 : often + 1;
      if (begun() !== before || looks++ > 3 * OFTEN) return;
      if (often < OFTEN) requestIdleCallback(look);
      else early = asked();
    };
    requestIdleCallback(look);
  }

  // How long the document has been still, and its next frame, both from now on.
  function watch() {
    let last = performance.now();
    const changed = (records) => {
      if (records.some((record) => record.attributeName !== "style")) last = performance.now();
    };
    const observer = new MutationObserver(changed);
    observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    const stillFor = () => (changed(observer.takeRecords()), performance.now() - last);
    return { act: begun(), observer, stillFor, frame: new Promise(requestAnimationFrame) };
  }

  let press = null; // what has been watched from the act's click on
  addEventListener("click", (event) => {
    if (!event.isTrusted) return;
    press?.observer.disconnect();
    press = watch();
  }, true);

  // As `settle`, or sooner, in two ways. `loads`: Chromium calls an idle page back with the time until its next frame or
  // timer is due, so that stillness until then is known; after a click frames go on, and it is not. `alone`, on a page
  // that only its own script changes: where it has asked for nothing that may be due, a whole frame and what that sets
  // off are waited for, and the quiet time less a frame's.
  function rest(quiet, limit, loads, alone) {
    let over = false;
    if (press && press.act !== begun()) press = press.observer.disconnect(); // of an act before
    const { stillFor, frame, observer } = press || watch();
    press = null;
    const foreseen = new Promise((resolve) => {
      const look = (idle) => {
        if (over) return;
        const still = stillFor();
        if (still < ELSEWHERE) setTimeout(() => requestIdleCallback(look), ELSEWHERE - still);
        else if (still + idle.timeRemaining() < quiet || idle.timeRemaining() < FRAME) requestIdleCallback(look);
        else resolve({ calm: true });
      };
      if (loads) requestAnimationFrame(() => requestIdleCallback(look)); // a frame ends what was foreseen
    });
    const counted = new Promise((resolve) => {
      const nothing = () => asked() === early && !document.getAnimations().length;
      const look = () => {
        if (over || !nothing()) return;
        const left = quiet - FRAME - stillFor();
        if (left > 0) setTimeout(look, left);
        else resolve({ calm: true, alone });
      };
      // in the background: after all that is to be done at once
      if (alone && nothing()) frame.then(() => scheduler.postTask(look, { priority: "background" }));
    });
    // after a load its own timer is due later than `quiet`, or it would be what is foreseen
    return Promise.race([settle(quiet + 2 * loads, limit), foreseen, counted]).finally(() => {
      over = true;
      observer.disconnect();
      if (asked() !== early) setTimeout(requestAnimationFrame, LATER, () => notice(Math.min(quiet, 2 * FRAME)));
    });
  }

  return { rest };
})());
