// When a page has come to rest, known ahead of the clock.
"use strict";
Object.assign(globalThis.bestofq, (() => {
  const { settle } = globalThis.bestofq;
  const ELSEWHERE = 5; // ms in which workers, databases and sockets answer: no timer of the page's foretells them
  const FRAME = 17; // ms: with less left it may be the next frame that is foreseen, and no timer before it

  // As `settle`, or sooner: Chromium calls an idle page back with the time until its next frame or timer is due, so that
  // stillness until then is known. Where it is never idle, or too briefly, the clock of `settle` decides.
  function rest(quiet, limit) {
    let over = false, last = performance.now();
    const changed = (records) => {
      if (records.some((record) => record.attributeName !== "style")) last = performance.now();
    };
    const observer = new MutationObserver(changed);
    observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    const foreseen = new Promise((resolve) => {
      const ask = () => over || requestAnimationFrame(() => requestIdleCallback(look)); // a frame ends what was foreseen
      const look = (idle) => {
        if (over) return;
        changed(observer.takeRecords());
        const still = performance.now() - last;
        if (still < ELSEWHERE) setTimeout(() => requestIdleCallback(look), ELSEWHERE - still);
        else if (still + idle.timeRemaining() < quiet || idle.timeRemaining() < FRAME) requestIdleCallback(look);
        else resolve({ calm: true });
      };
      ask();
    });
    // its own timer is due later than `quiet`, or it would be what is foreseen
    return Promise.race([settle(quiet + 2, limit), foreseen]).finally(() => { over = true; observer.disconnect(); });
  }

  return { rest };
})());
