// The page as it is, whatever it calls itself: its tree, and what a human sees of it. Runs in an isolated world, whose
// prototypes are our own. Named properties still get in: of a form, `<input name=tagName>` is its `tagName`. They are
// strings only, so each built-in property that is read here is read by a symbol beside it: `el[$.tagName]`.
"use strict";
globalThis.bestofq = (() => {
  const OF_FIELDS = "form labels type value name required willValidate validity validationMessage";
  const BUILT_IN = {
    EventTarget: "dispatchEvent",
    Node: "nodeType parentNode childNodes firstChild textContent getRootNode isConnected ownerDocument baseURI",
    CharacterData: "data",
    Text: "assignedSlot",
    Element: "tagName localName namespaceURI id previousElementSibling shadowRoot assignedSlot firstElementChild getAttribute hasAttribute "
      + "matches closest querySelector querySelectorAll getAnimations getBoundingClientRect getClientRects checkVisibility "
      + "clientLeft clientTop clientWidth clientHeight scrollWidth scrollHeight currentCSSZoom scrollIntoView scrollBy scrollLeft scrollTop",
    Document: "documentElement body title defaultView scrollingElement createRange getElementById elementFromPoint "
      + "elementsFromPoint getAnimations getSelection getElementsByTagName querySelector querySelectorAll activeElement styleSheets adoptedStyleSheets",
    DocumentFragment: "getElementById querySelector querySelectorAll",
    ShadowRoot: "host elementFromPoint elementsFromPoint activeElement getAnimations styleSheets adoptedStyleSheets",
    HTMLElement: "isContentEditable innerText title tabIndex focus blur offsetWidth offsetHeight",
    SVGElement: "tabIndex focus",
    HTMLAreaElement: "alt",
    HTMLButtonElement: OF_FIELDS,
    HTMLDetailsElement: "open",
    HTMLFieldSetElement: OF_FIELDS,
    HTMLFormElement: "elements noValidate requestSubmit",
    HTMLFrameElement: "contentDocument contentWindow src",
    HTMLIFrameElement: "contentDocument contentWindow src",
    HTMLImageElement: "alt currentSrc",
    HTMLInputElement: `${OF_FIELDS} alt checked files list placeholder readOnly select`,
    HTMLLabelElement: "control",
    HTMLMeterElement: "labels",
    HTMLObjectElement: OF_FIELDS,
    HTMLOutputElement: OF_FIELDS,
    HTMLProgressElement: "labels",
    HTMLSelectElement: `${OF_FIELDS} multiple options selectedIndex selectedOptions size`,
    HTMLSlotElement: "assignedNodes",
    HTMLTextAreaElement: `${OF_FIELDS} placeholder readOnly select`,
  };
  const names = new Set(Object.values(BUILT_IN).join(" ").split(" "));
  const $ = JSON.parse(`{${Array.from(names, (name) => `"${name}":0`).join()}}`); // quicker to read than one that grew
  for (const name of names) $[name] = Symbol(name);

  // The elements on which the page listens to clicks, and to the pointer that comes over them (listeners.js).
  const heard = new Set(), over = new Set();
  let wheels = false; // whether it listens to a mouse's wheel
  addEventListener("bestofq:heard", (event) => {
    const [el] = event.composedPath();
    if (el === globalThis) heard.clear(), over.clear(), wheels = false;
    else heard.add(el);
  }, true);
  addEventListener("bestofq:over", (event) => over.add(event.composedPath()[0]), true);
  addEventListener("bestofq:wheel", () => { wheels = true; }, true);
  const turns = () => wheels, hears = (el) => heard.has(el), opensOver = (el) => over.has(el);

  // Gives the prototypes of a window their symbols.
  function arm(view) {
    for (const [owner, own] of Object.entries(BUILT_IN)) {
      const { prototype } = view[owner];
      for (const name of own.split(" ")) {
        const built = Object.getOwnPropertyDescriptor(prototype, name);
        if (built) Object.defineProperty(prototype, $[name], built);
      }
    }
  }
  arm(globalThis);

  // The document of a frame of the same origin, else null.
  function within(frame) {
    const inner = frame[$.contentDocument];
    if (inner && !($.nodeType in inner)) arm(frame[$.contentWindow]);
    return inner;
  }

  const SVG = "http://www.w3.org/2000/svg";
  const isText = (node) => node[$.nodeType] === Node.TEXT_NODE;
  const isElement = (node) => node?.[$.nodeType] === Node.ELEMENT_NODE;
  const isSvg = (el) => el[$.namespaceURI] === SVG;
  const tag = (el) => el[$.tagName].toUpperCase();
  const is = (el, ...names) => names.includes(el[$.localName]);
  const typed = (el) => (tag(el) === "INPUT" ? el[$.type] : "");
  const viewOf = (el) => el[$.ownerDocument][$.defaultView];

  // What lies on top at a point, as a root knows it. Of a word in a slot, elementFromPoint knows only the root's host.
  function topmost(root, x, y) {
    const hit = root[$.elementFromPoint]?.(x, y);
    return hit && hit === root[$.host] ? root[$.elementsFromPoint](x, y)[0] : hit;
  }

  function flatParent(node) {
    const parent = node[$.parentNode];
    return node[$.assignedSlot] || (parent?.[$.nodeType] === Node.DOCUMENT_FRAGMENT_NODE ? parent[$.host] : parent);
  }

  // The box around a box that a matrix moves, scales and turns.
  function around(rect, matrix) {
    if (matrix.isIdentity) return rect;
    const { a, b, c, d } = matrix;
    const { x, y } = matrix.transformPoint({ x: rect.x + rect.width / 2, y: rect.y + rect.height / 2 });
    const width = Math.abs(a) * rect.width + Math.abs(c) * rect.height;
    const height = Math.abs(b) * rect.width + Math.abs(d) * rect.height;
    return new DOMRect(x - width / 2, y - height / 2, width, height);
  }

  // The matrix from points of a frame's document to those of the viewport around the frame, by border, padding, zoom
  // and CSS transforms; null where these do not explain the frame's box (perspective).
  function placeOf(frame) {
    let turned = new DOMMatrix().scale(frame[$.currentCSSZoom]);
    for (let node = frame; isElement(node); node = flatParent(node)) {
      const { display, rotate, scale, transform } = getComputedStyle(node);
      if (node !== frame && ["inline", "contents"].includes(display)) continue; // nothing turns these
      const [across, down = across] = scale === "none" ? [1] : scale.split(" ").map(Number);
      const { a, b, c, d } = new DOMMatrix(transform);
      turned = new DOMMatrix().rotate(rotate === "none" ? 0 : parseFloat(rotate)).scale(across, down)
        .multiply(new DOMMatrix([a, b, c, d, 0, 0])).multiply(turned);
    }
    const rect = frame[$.getBoundingClientRect](), { paddingLeft, paddingTop } = getComputedStyle(frame);
    const whole = around(new DOMRect(0, 0, frame[$.offsetWidth], frame[$.offsetHeight]), turned); // rounded
    const { width, height } = around(new DOMRect(0, 0, 1, 1), turned);
    if (!(Math.abs(whole.width - rect.width) < width && Math.abs(whole.height - rect.height) < height)) return null;
    return new DOMMatrix().translate(rect.x - whole.x, rect.y - whole.y).multiply(turned)
      .translate(frame[$.clientLeft] + parseFloat(paddingLeft), frame[$.clientTop] + parseFloat(paddingTop));
  }

  function children(node) {
    if (node[$.shadowRoot]) return node[$.shadowRoot][$.childNodes];
    if (is(node, "details") && !node[$.open]) return node[$.querySelectorAll](":scope > summary:first-of-type");
    if (is(node, "slot")) {
      const assigned = node[$.assignedNodes]({ flatten: true });
      if (assigned.length) return assigned;
    }
    return node[$.childNodes];
  }

  // What a human does not see and a reader would: control, formatting and tag characters. U+FDD0 stands for a mark.
  const HIDDEN = new RegExp("[\\0-\\x08\\x0e-\\x1f\\x7f-\\x9f\\xad\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180e"
    + "\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164\\ufdd0-\\ufdef\\uffa0\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}]"
    + "|[\\u200c\\u200d]{2,}|[\\ufe00-\\ufe0f]{2,}", "gu");
  const MARK_LIKE = /[[［⟦〚【〔❲⁅〖〘⦋⦗⟬﹝﹇「｢『⌈⌊]([\s\p{Cf}\p{M}]*(?:\p{N}[\s\p{Cf}\p{M}]*)+)[\]］⟧〛】〕❳⁆〗〙⦌⦘⟭﹞﹈」｣』⌉⌋]/gu;
  const turned = (text) => Array.from(text).reverse().join("");
  const BACKWARD = /\u202e([^\u202c\u202d\u2069\n]*)/g;
  const clean = (text) => text.replace(BACKWARD, (_, part) => turned(part)).replace(HIDDEN, "");
  const collapse = (text) => text.toWellFormed().replace(/\s+/g, " ").trim();
  const squeeze = (text) => collapse(clean(text));
  const unmarked = (text) => text.replace(MARK_LIKE, "($1)"); // `[7]` is a mark only where we write it

  function rangeRect(node) {
    const range = node[$.ownerDocument][$.createRange]();
    range.selectNodeContents(node);
    return range.getBoundingClientRect();
  }

  // The picture that an area of an image map lies on; none of anything else.
  function mapped(el) {
    const name = is(el, "area") && el[$.closest]("map")?.[$.getAttribute]("name");
    return name && el[$.ownerDocument][$.documentElement][$.querySelector](`img[usemap="#${CSS.escape(name)}"]`);
  }

  // What the coordinates of an area span of its picture; without any, all of it.
  function areaRect(area) {
    const { x, y, width, height } = mapped(area)?.[$.getBoundingClientRect]() || new DOMRect();
    const n = (area[$.getAttribute]("coords")?.slice(0, 2000).match(/-?\d+(\.\d+)?/g) || []).map(Number);
    let spans = [n.filter((_, i) => i % 2 === 0), n.filter((_, i) => i % 2)];
    if (n.length === 3) spans = [[n[0] - n[2], n[0] + n[2]], [n[1] - n[2], n[1] + n[2]]]; // a circle
    if (n.length < 3) spans = [[0, width], [0, height]];
    const [[left, right], [top, bottom]] = spans.map((span, i) => [Math.min(...span), Math.max(...span)]
      .map((at) => Math.min(Math.max(at, 0), [width, height][i])));
    return new DOMRect(x + left, y + top, right - left, bottom - top);
  }

  // An inline box around floats has no area of its own.
  function rectOf(el) {
    if (is(el, "area")) return areaRect(el);
    const rect = el[$.getBoundingClientRect]();
    return (rect.width && rect.height) || !el[$.firstChild] ? rect : rangeRect(el);
  }

  const UNPAINTED = new RegExp("^inset\\((100|[5-9]\\d)(\\.\\d+)?%|^(circle|ellipse)\\(0(px|%)?[ )]"
    + "|^polygon\\(([^,)]+)(, \\5)+\\)$|opacity\\(0(\\.0\\d*)?\\)");
  const unpainted = (value) => value !== "none" && UNPAINTED.test(value);

  // Whether `clip` leaves less than a pixel.
  function clipped({ clip, position }) {
    if (clip === "auto" || position !== "absolute" && position !== "fixed") return false;
    const [top, right, bottom, left] = clip.slice(5).split(", ").map(parseFloat);
    return bottom - (top || 0) < 1 || right - (left || 0) < 1;
  }
  const BOXES = ["checkbox", "radio", "file", "range"];
  const transparent = (el, { opacity }) => opacity !== "1" && opacity < 0.05 && !BOXES.includes(typed(el)) && !overlaid(el);

  // Whether it is a field that lies over what is drawn in its place.
  function overlaid(el) {
    if (!is(el, "input", "select", "textarea")) return false;
    const { x, y, width, height } = el[$.getBoundingClientRect]();
    return width > 2 && height > 2 && el[$.getRootNode]()[$.elementFromPoint]?.(x + width / 2, y + height / 2) === el;
  }
  const [styles, sights, colours, papers, legibles, asides] = Array.from({ length: 6 }, () => new Map()); // of one reading

  const styleOf = (el) => styles.get(el) || styles.set(el, getComputedStyle(el)).get(el);

  // An element as a human meets it: `shown` itself, `open` to its children (a hidden parent may have visible ones).
  // A check box or slider that is transparent counts as shown: it lies over a drawn one.
  const sight = (el, style) => sights.get(el) || sights.set(el, look(el, style)).get(el);

  function look(el, style) {
    const no = { shown: false, open: false };
    if (style.display === "none" || transparent(el, style)) return no;
    if (style.display === "contents") return { shown: style.visibility === "visible", open: true };
    if (unpainted(style.clipPath) || unpainted(style.filter) || clipped(style) && !BOXES.includes(typed(el))) return no;
    if ((style.overflowX !== "visible" || style.clip !== "auto") && tag(el) !== "BODY" && tag(el) !== "HTML") {
      const rect = el[$.getBoundingClientRect]();
      if ((rect.width <= 1 || rect.height <= 1) && style.display !== "inline") return no;
    }
    if (style.contentVisibility === "hidden" || !el[$.checkVisibility]()) return no;
    return { shown: style.visibility === "visible", open: true };
  }

  const offView = ({ left, top, right, bottom }, view) => right <= 0 || bottom <= 0 || left >= view.innerWidth || top >= view.innerHeight;

  // Whether the box around it that stays in its place while the page scrolls, if there is one, lies out of view: a closed drawer.
  function drawnAside(el) {
    if (!isElement(el) || is(el, "html", "body")) return false;
    if (!asides.has(el)) {
      let fixed = styleOf(el).position === "fixed";
      for (let node = flatParent(el); fixed && isElement(node); node = flatParent(node)) fixed = styleOf(node).transform === "none";
      asides.set(el, fixed ? offView(el[$.getBoundingClientRect](), viewOf(el)) : drawnAside(flatParent(el)));
    }
    return asides.get(el);
  }

  // Whether no scrolling brings it into view: it lies before the page's beginning, or in a closed drawer.
  function unreachable(el, rect) {
    if (offView(rect, viewOf(el)) && drawnAside(el)) return true;
    if (rect.right > 0 && rect.bottom > 0 && rect.left < innerWidth) return false;
    const view = viewOf(el), root = el[$.ownerDocument][$.documentElement];
    const rightToLeft = getComputedStyle(root).direction === "rtl";
    const across = rightToLeft ? rect.left + view.scrollX < view.innerWidth : rect.right + view.scrollX > 0;
    if (across && rect.bottom + view.scrollY > 0) return false;
    for (let node = el; isElement(node) && !is(node, "html", "body"); node = flatParent(node)) {
      if (node[$.scrollLeft] || node[$.scrollTop]) return false;
    }
    return true;
  }

  const PICTURES = ["img", "picture", "video", "canvas", "svg", "iframe", "object", "embed"];

  const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });

  function drawnColour(text) {
    if (!text) return null;
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = text;
    brush.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  }

  // [red, green, blue, alpha] of a computed colour; of another colour space as a canvas draws it.
  function colour(text) {
    if (!colours.has(text)) {
      const numbers = /^rgba?\((.*)\)$/.exec(text)?.[1].split(", ").map(Number);
      colours.set(text, numbers ? [...numbers, 1].slice(0, 4) : drawnColour(text));
    }
    return colours.get(text);
  }

  // The colour that an element's ancestors lay under it, pictures aside; null where that is a mixture.
  function paperOf(el) {
    if (!isElement(el)) {
      const frame = el?.[$.defaultView]?.frameElement;
      return frame ? paperOf(frame) : [255, 255, 255, 1];
    }
    if (!papers.has(el)) {
      const style = styleOf(el), own = colour(style.backgroundColor);
      const dark = is(el, "html") && style.colorScheme.includes("dark");
      const mixed = !own || dark || (own[3] > 0 && own[3] < 1);
      papers.set(el, mixed ? null : own[3] ? own : paperOf(flatParent(el)));
    }
    return papers.get(el);
  }

  const near = (ink, paper) => Math.max(...[0, 1, 2].map((part) => Math.abs(ink[part] - paper[part]))) < 20;

  // Whether text in the colour of its paper is seen all the same: by its shadow, or since it lies over something else.
  function setOff(el, style, ink, rect) {
    const { textShadow, webkitTextStrokeWidth, mixBlendMode } = style;
    if (textShadow !== "none" || webkitTextStrokeWidth !== "0px" || mixBlendMode !== "normal") return true;
    for (let node = el, up = 0; isElement(node) && up < 4; node = flatParent(node), up++) {
      if (styleOf(node).backgroundClip === "text") return true;
    }
    if (ink[3] < 0.1) return false;
    for (let node = el; isElement(node); node = flatParent(node)) {
      if (styleOf(node).backgroundImage !== "none") return true;
      if (colour(styleOf(node).backgroundColor)?.[3]) break;
    }
    const [x, y] = [rect.x + rect.width / 2, rect.y + rect.height / 2];
    const stack = el[$.ownerDocument][$.elementsFromPoint](x, y), own = stack.indexOf(el);
    for (const below of stack.slice(own + 1)) {
      const { backgroundColor, backgroundImage } = styleOf(below), laid = colour(backgroundColor);
      if (is(below, ...PICTURES) || backgroundImage !== "none" || !laid) return true;
      if (laid[3]) return !near(ink, laid);
    }
    if (stack.length) return false;
    return Array.from(el[$.ownerDocument][$.querySelectorAll](PICTURES.join()), (one) => one[$.getBoundingClientRect]())
      .some((one) => one.x <= x && x <= one.right && one.y <= y && y <= one.bottom); // out of the viewport
  }

  function seen(node, el, style) {
    if (parseFloat(style.fontSize) < 2) return false;
    let rect = parseFloat(style.textIndent) < 0 || parseFloat(style.marginLeft) < -99 ? rangeRect(node) : el[$.getBoundingClientRect]();
    if (rect.width < 1 || rect.height < 1) rect = rangeRect(node);
    if (rect.width < 1 || rect.height < 1 || unreachable(el, rect)) return false;
    const ink = colour(style.webkitTextFillColor), paper = ink && paperOf(el);
    return !ink || (ink[3] >= 0.1 && !(paper && near(ink, paper))) || setOff(el, style, ink, rect);
  }

  // The text of a text node as a human reads it: none where it cannot be seen (`style` is its element's).
  function legible(node, el) {
    const text = node[$.data];
    if (!/\S/.test(text) || isSvg(el)) return text; // what SVG draws has colours and sizes of its own
    if (!legibles.has(el)) {
      const style = styleOf(el);
      const backward = style.unicodeBidi.endsWith("override") && style.direction === "rtl";
      legibles.set(el, !seen(node, el, style) ? () => "" : backward ? turned : (written) => written);
    }
    return legibles.get(el)(text);
  }

  function forget() {
    for (const known of [styles, sights, colours, papers, legibles, asides]) known.clear();
  }

  return { $, hears, opensOver, turns, within, around, placeOf, isText, isElement, isSvg, tag, is, topmost, typed, viewOf, flatParent, children, clean,
    collapse, squeeze, unmarked, mapped, rectOf, sight, styleOf, unreachable, legible, forget };
})();
