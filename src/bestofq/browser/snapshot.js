// One pass over the flat tree: what a reader sees, and what can be acted on. Text format: docstring of snapshot.py.
"use strict";
Object.assign(globalThis.bestofq, (() => {
  const { $, hears, opensOver, within, around, placeOf, isText, isElement, isSvg, tag, is, typed, flatParent, children, clean, collapse,
    squeeze, unmarked, mapped, rectOf, sight, styleOf, topmost, unreachable, legible, forget } = globalThis.bestofq;
  const NAME_LIMIT = 200; // characters of an accessible name
  const TITLE_LIMIT = 2000;
  const NAME_NODES = 2000; // nodes read for one
  const NEAR = 60; // CSS pixels that an element may move while it is drawn anew
  const DEPTH = 400; // nodes one within another
  const LARGE = 10_000; // elements of a page that is read near the viewport only
  const AROUND = 2; // viewport heights and widths that are near it
  const MOST = { nodes: 40_000, marks: 4_000 };
  const WIDGETS = new Set(["button", "checkbox", "combobox", "link", "menuitem", "menuitemcheckbox", "menuitemradio",
    "option", "radio", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem"]);
  const INPUT_ROLES = { button: "button", submit: "button", reset: "button", image: "button", file: "button",
    color: "button", checkbox: "checkbox", radio: "radio", range: "slider", number: "spinbutton", search: "searchbox" };
  const FIELDS = new Set(["textbox", "searchbox", "combobox", "spinbutton", "slider"]);
  const BUTTON_VALUES = { submit: "Submit", reset: "Reset", image: "Submit" };
  const SKIP = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "OPTION", "OPTGROUP", "DATALIST", "VIDEO",
    "AUDIO", "CANVAS", "OBJECT", "EMBED", "AREA"]);
  const HIDDEN_BOXES = new Set(["checkbox", "radio", "file", "color", "range"]);
  const INPUTS = new Set(["INPUT", "SELECT", "TEXTAREA"]);
  const NATIVE = "a[href],area[href],button,input,select,textarea,summary,[contenteditable],[onclick],[tabindex],"
    + "[role]:not([role=presentation],[role=none],[role=img],[role=group])";
  const MARK = "\ufdd0", FRAME = "\ufdd1"; // where a mark or a frame's page comes; `clean` takes them out of what pages say
  const isInline = (style) => style.display.startsWith("inline") || style.display === "contents";
  const attribute = (el, name) => el[$.getAttribute](name) || "";

  function drawn(control) {
    const rect = control[$.getBoundingClientRect]();
    return rect.width > 0 && rect.height > 0 && sight(control, styleOf(control)).shown && !boxAround(control) && !unreachable(control, rect)
      && styleOf(control).pointerEvents !== "none" && flatParent(control)[$.checkVisibility]({ opacityProperty: true });
  }

  const disabled = (el) => el[$.matches](":disabled") || attribute(el, "aria-disabled") === "true";

  const hostsEditing = (el) => el[$.isContentEditable] && !flatParent(el)?.[$.isContentEditable];

  function inputRole(el) {
    const type = el[$.type];
    if (type === "hidden") return null;
    if (INPUT_ROLES[type] && !(el[$.list] && type === "search")) return INPUT_ROLES[type];
    return el[$.list] ? "combobox" : "textbox";
  }

  function roleOf(el, style, clickableAbove) {
    for (const role of attribute(el, "role").toLowerCase().split(/\s+/)) if (WIDGETS.has(role)) return role;
    const cell = el[$.hasAttribute]("tabindex") && /^(gridcell|columnheader|rowheader)$/.test(attribute(el, "role"));
    if (cell && !insideOf(el, 1).length && el[$.textContent].trim()) return "clickable";
    switch (tag(el)) {
      case "A": case "AREA": if (el[$.hasAttribute]("href")) return "link"; break;
      case "BUTTON": return "button";
      case "SUMMARY": if (is(el[$.parentNode], "details")) return "button"; break;
      case "TEXTAREA": return "textbox";
      case "SELECT": return el[$.multiple] || el[$.size] > 1 ? "listbox" : "combobox";
      case "INPUT": return inputRole(el);
      case "HTML": case "BODY": return el[$.ownerDocument] !== document && hostsEditing(el) ? "textbox" : null;
      case "IFRAME": return null;
    }
    if (hostsEditing(el) || is(unseen.get(el) || el, "textarea")) return "textbox";
    if (el[$.hasAttribute]("onclick")) return repeats(el) ? null : "clickable";
    if (!clickableAbove && (opensOver(el) || opens && el[$.matches](opens)) && opensUnseen(el)) return "clickable";
    if (hears(el) && is(flatParent(el), "button") && !squeeze(textOf(el))) return null; // the place of its icon
    if (hears(el)) return answers(el, style) ? "clickable" : null;
    const reached = el[$.hasAttribute]("tabindex") && !el[$.hasAttribute]("role") && (el[$.tabIndex] >= 0 || isItem(el));
    if (!reached && !pointed(el, style, clickableAbove)) return null;
    const words = squeeze(el[$.textContent]);
    if (words.length > NAME_LIMIT) return null; // a region, not a button
    const silent = !words && !attribute(el, "aria-label") && !attribute(el, "title") && !el[$.querySelector](DRAWN);
    if (silent && (clickableAbove || isLarge(el))) return null; // a widget's part, or an empty region
    if (isLarge(el) && insideOf(el, 1).length) return null; // a page within the page
    return (reached ? !repeats(el) && itemsOf(el) < 2 : !insideOf(el).length) ? "clickable" : null;
  }

  const DRAWN = "img,svg,canvas,video,i";
  const isLarge = (el) => rectOf(el).width * rectOf(el).height > innerWidth * innerHeight / 2;

  // The first widgets within an element, as many as tell whether it is a box around them.
  function insideOf(el, most = 2, depth = 0) {
    const inside = [];
    for (const child of depth < 40 ? children(el) : []) {
      if (!isElement(child)) continue;
      if (child[$.matches](NATIVE) || hears(child)) inside.push(child);
      if (inside.length < most) inside.push(...insideOf(child, most - inside.length, depth + 1));
      if (inside.length >= most) break;
    }
    return inside;
  }

  // Whether a click on it is a click on a widget within it that has the same words.
  function repeats(el) {
    const inside = insideOf(el, 6).filter((one) => one[$.getClientRects]().length);
    const words = inside.length && squeeze(textOf(el));
    return inside.some((one) => !INPUTS.has(tag(one)) && squeeze(attribute(one, "aria-label") || textOf(one)) === words);
  }

  // Whether an element that listens to clicks is one thing, and no region around others and no drawing.
  function answers(el, style) {
    if (is(el, "svg", "canvas")) return false;
    const words = el[$.innerText] || "", above = flatParent(el);
    if (isLarge(el) || words.length > 3 * NAME_LIMIT) return false;
    if (style.cursor === "pointer" && isElement(above) && styleOf(above).cursor !== "pointer") return !repeats(el);
    return !insideOf(el, 1).length && words.trim().split(/\n+/).length < 4;
  }

  // The items of a list that takes the focus for them, or lets them take it in turn: a key or a click chooses among them.
  const itemsOf = (el) => el[$.querySelectorAll]("[tabindex]").length;
  function isItem(el) {
    const twin = (one) => tag(one) === tag(el) && attribute(one, "class") === attribute(el, "class");
    for (let node = flatParent(el), up = 0; isElement(node) && up < 4; node = flatParent(node), up++) {
      if (node[$.hasAttribute]("tabindex")) return node[$.tabIndex] >= 0 && itemsOf(node) > 1;
      if (attribute(el, "class") && Array.from(node[$.querySelectorAll]("[tabindex='0']")).some(twin)) return true;
    }
    return false;
  }

  // Fields that are unseen, by what is drawn in their place: editors with text of their own (CodeMirror 5), thumbs of sliders.
  let unseen = new Map();
  const editorOf = (area) => is(area, "textarea") && Array.from(unseen).find(([, field]) => field === area)?.[0];

  function findUnseen() {
    const found = new Map(), areas = "textarea:not([name],[readonly],[tabindex='-1'],[aria-hidden=true])"; // no trap in a form
    for (const field of document[$.querySelectorAll](`input[type=range],input[type=checkbox],${areas}`)) {
      const above = flatParent(field), bare = typed(field) === "checkbox" && hears(above) && !squeeze(textOf(above));
      const box = bare ? above : typed(field) !== "checkbox" && field[$.checkVisibility]({ visibilityProperty: true }) && boxAround(field);
      if (box && !is(box, "body", "form", "label") && rectOf(box).height > 10) found.set(box, field);
    }
    return found;
  }

  // The first box that is seen around an unseen one, if the field or a box close around it is clipped away; else null.
  function boxAround(field) {
    let box = null;
    for (let node = field, up = 0; isElement(node) && up < 3; node = flatParent(node), up++) {
      if (!sight(node, styleOf(node)).open) box = flatParent(node);
    }
    return isElement(box) ? box : null;
  }

  const DIALOGS = "dialog:modal,[aria-modal=true],[role=dialog],[role=alertdialog]";
  let dialogs = []; // that are open: what they cover cannot be clicked

  function findDialogs() {
    const all = [document, ...globalThis.bestofq.roots].flatMap((root) => Array.from(root[$.querySelectorAll](DIALOGS)));
    return all.filter((el) => {
      if (el[$.ownerDocument] !== document) return false;
      const { left, top, right, bottom } = el[$.getBoundingClientRect]();
      return right > left && bottom > top && right > 0 && bottom > 0 && left < innerWidth && top < innerHeight
        && el[$.checkVisibility]({ opacityProperty: true, visibilityProperty: true });
    });
  }

  // Whether an open dialog keeps clicks from an element.
  function covered(el, rect) {
    if (el[$.ownerDocument] !== document) return false;
    for (let node = el; isElement(node); node = flatParent(node)) if (dialogs.includes(node)) return false;
    const x = rect.x + rect.width / 2, y = rect.y + rect.height / 2;
    if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) return dialogs.some((box) => box[$.matches](":modal,[aria-modal=true]"));
    for (let node = topmost(el[$.getRootNode](), x, y); isElement(node); node = flatParent(node)) {
      if (node === el || is(node, "label") && node[$.control] === el) return false;
    }
    return true;
  }

  const reveals = []; // pairs of selectors: what opens, and what is shown then
  let opens = ""; // selectors of what shows more while the pointer is over it
  const written = { before: "", after: "" }; // selectors of what has words written by its style

  const ruled = new WeakMap(); // sheet → how many rules it had, and what they are
  const ownRules = (holder) => { try { return Array.from(holder.cssRules || []); } catch { return []; } }; // of another site

  // The selectors and the style of each rule that asks for the pointer or writes words, however deep it lies in others.
  function rulesOf(holder, outer = "") {
    return ownRules(holder).flatMap((rule) => {
      const own = rule.selectorText?.replaceAll("&", `:is(${outer})`) ?? outer;
      return [...(/:(hover|:?before|:?after)/.test(own) && rule.style ? [{ selectors: own, style: rule.style }] : []), ...rulesOf(rule.styleSheet || rule, own)];
    });
  }

  const rulesOfSheet = (sheet, { length } = ownRules(sheet)) => (ruled.get(sheet)?.length === length ? ruled
    : ruled.set(sheet, { length, rules: rulesOf(sheet) })).get(sheet).rules;

  function findOpeners() {
    const found = new Set(), quoted = { before: new Set(), after: new Set() }, head = /^\s*(\S.*?):hover(\s*[>+~]\s*|\s+)\S/;
    const sheets = [document, ...globalThis.bestofq.roots].flatMap((root) => [...root[$.styleSheets], ...root[$.adoptedStyleSheets]]);
    for (const { selectors, style } of Array.from(new Set(sheets)).flatMap((sheet) => rulesOfSheet(sheet))) {
      if (/^("[^"]|attr\()/.test(style.content)) {
        for (const [, selector, side] of selectors.matchAll(/([^,]*?)::?(before|after)\b/g)) quoted[side].add(selector.trim() || "*");
      }
      if (!selectors.includes(":hover") || !(style.display || style.visibility || style.opacity)) continue;
      for (const selector of selectors.split(",")) {
        const [, opener, sign] = /.*:is\((\S+):hover (\*)\)/.exec(selector) || head.exec(selector) || [], shown = selector.replace(":hover", "");
        if (opener) found.add(opener);
        if (opener && CSS.supports(`selector(${opener})`) && CSS.supports(`selector(${shown})`)) reveals.push([opener, shown, /[+~]/.test(sign)]);
      }
    }
    const valid = (all) => Array.from(all).filter((selector) => CSS.supports(`selector(${selector})`)).join();
    for (const side of ["before", "after"]) written[side] = valid(quoted[side]);
    return valid(found);
  }

  // The words that its style writes before or after it; none of the signs of icon fonts.
  function generated(el, side) {
    if (!written[side] || !el[$.matches](written[side])) return "";
    const style = getComputedStyle(el, `::${side}`), words = stringsOf(style, el);
    const told = el[$.querySelector](`[aria-label="${CSS.escape(words)}"]`); // by the name of a field in it
    return !told && style.visibility === "visible" && /[\p{L}\p{N}\p{Sc}]/u.test(words) && !/\p{Co}/u.test(words) ? words : "";
  }

  // Whether its words are a menu's head, in which nothing can be clicked yet, or a card that shows its buttons then.
  function opensUnseen(el) {
    const words = squeeze(el[$.innerText] || ""), inner = Array.from(el[$.querySelectorAll](NATIVE));
    const seen = (one) => one[$.checkVisibility]({ opacityProperty: true, visibilityProperty: true });
    if (!words || words.length > NAME_LIMIT) return false;
    const unseen = (box, shown) => Array.from(box[$.querySelectorAll](shown)).some((one) => !seen(one)
      && (one[$.matches](NATIVE) || one[$.querySelector](NATIVE)));
    return inner.length > 0 && !inner.some(seen)
      || reveals.some(([opener, shown, beside]) => el[$.matches](opener) && unseen(beside ? el[$.parentNode] : el, shown));
  }

  // Whether a pointer begins here, and nothing around it can be clicked.
  function pointed(el, style, clickableAbove) {
    if (style.cursor !== "pointer" || clickableAbove || tag(el) === "LABEL") return false;
    const parent = flatParent(el);
    return !(isElement(parent) && styleOf(parent).cursor === "pointer");
  }

  // The file name of a picture that stands for words: what a reader has of an icon without a name.
  function pictured(el) {
    const style = styleOf(el), drawn = [style.content, style.backgroundImage].join(" ");
    const url = el[$.currentSrc] || drawn.match(/url\("(?!data:)([^"]+)"\)/)?.[1];
    if (!url) return "";
    const file = (whole) => whole.replace(/[?#].*$/, "").replace(/^.*\/|\.\w+$/g, "");
    try { return file(decodeURI(url)); } catch { return file(url); }
  }

  const ICON = /(?:^|\s)(?:(?:[a-z]{1,4}-)?icon|fa|bi|mdi|ti|ph|glyphicon|codicon|octicon|lucide|feather)[_-]+([a-z][\w-]{2,})/i;
  const SAID = /(?:^|[\s_-])(prev(?:ious)?|next|close|search|menu|cart|remove|delete|edit|add|play|pause|share|download|filter)(?![a-z])/i;
  const HINTS = ["data-title", "data-tooltip", "data-bs-original-title", "data-original-title"];

  // What a nameless element has instead of a name: its box's label, if it alone is in the box, or its icon's own name.
  function iconOf(el) {
    for (let box = flatParent(el), up = 0; isElement(box) && up < 2 && insideOf(box).length < 2; box = flatParent(box), up++) {
      const label = attribute(box, "aria-label") || attribute(box, "title");
      if (label) return label;
    }
    for (const part of [el, ...Array.from(el[$.querySelectorAll]("*")).slice(0, 8)]) {
      const hint = HINTS.map((name) => attribute(part, name)).find(Boolean) || "";
      const [, drawing = ""] = /^(\w+)Icon$/.exec(attribute(part, "data-testid")) || [];
      if (hint || drawing) return hint || drawing.replace(/([a-z\d])([A-Z])/g, "$1 $2");
      const used = is(part, "use") ? attribute(part, "href") || attribute(part, "xlink:href") : "";
      const word = attribute(part, "aria-hidden") === "true" && /^\s*([a-z]\w{2,})\s*$/.exec(part[$.textContent])?.[1]; // of an icon font
      const icon = word || attribute(part, "data-icon") || attribute(part, "data-lucide") || used.split("#")[1] || pictured(part)
        || ICON.exec(attribute(part, "class"))?.[1];
      if (icon) return icon.replace(/[_-]+/g, " ").replace(/^icons? | icon$/g, "");
    }
    return SAID.exec(`${attribute(el, "class")} ${el[$.id]}`)?.[1] || "";
  }

  // Text of a subtree as one line, for names: alternatives of images in place, blocks apart, `skip` left out. `left` is
  // how many nodes may still be read; `all`: unseen text too.
  function textOf(node, { skip = null, all = false, left = { nodes: NAME_NODES } } = {}, depth = 0) {
    if (isText(node)) return all ? node[$.data] : legible(node, flatParent(node));
    if (!isElement(node) || node === skip || depth > 40 || left.nodes-- <= 0) return "";
    if (is(node, "title") && isSvg(node)) return node[$.textContent];
    if (SKIP.has(tag(node)) || INPUTS.has(tag(node))) return "";
    if (tag(node) === "BR") return " ";
    let style = null;
    if (depth) {
      if (attribute(node, "aria-hidden") === "true") return "";
      const label = attribute(node, "aria-label");
      if (tag(node) === "IMG") return label || node[$.alt] || attribute(node, "title");
      style = styleOf(node);
      const hidden = all ? style.display === "none" || style.visibility !== "visible" : !sight(node, style).shown;
      if (!isSvg(node) && hidden) return "";
      if (label) return label;
    }
    let text = Array.from(children(node), (child) => textOf(child, { skip, all, left }, depth + 1)).join("");
    text = generated(node, "before") + text + generated(node, "after");
    if (style && !/\S/.test(text)) text = attribute(node, "title");
    return !style || isInline(style) ? text : ` ${text} `;
  }

  const cut = (text) => unmarked(squeeze(text).slice(0, NAME_LIMIT).trim());

  // What its description says, for a control without a name.
  function described(el) {
    const root = el[$.getRootNode](), ids = attribute(el, "aria-describedby").split(/\s+/, 5).filter(Boolean);
    return ids.map((id) => root[$.getElementById]?.(id)?.[$.textContent] || "").join(" ");
  }

  // Accessible name (W3C accname-1.2, the common cases), and whether it comes from the element's labels. Text that
  // cannot be seen names what has no other name: a word behind its picture.
  function nameOf(el, role) {
    const ids = attribute(el, "aria-labelledby").split(/\s+/, 20).filter(Boolean), root = el[$.getRootNode]();
    const found = ids.map((id) => root[$.getElementById]?.(id)).filter(Boolean);
    const said = (nodes, how) => cut(Array.from(new Set(nodes.map((node) => attribute(node, "aria-label") || textOf(node, how)))).join(" "));
    const read = (nodes, how = {}) => said(nodes, how) || said(nodes, { ...how, all: true });
    let name = read(found) || cut(attribute(el, "aria-label"));
    if (name) return [name, false];
    const kind = tag(el), type = typed(el);
    if (kind === "INPUT" && role === "button" && type !== "file" && type !== "color") {
      return [cut(el[$.value] || el[$.alt] || el[$.title] || BUTTON_VALUES[type] || ""), false];
    }
    const before = el[$.previousElementSibling], stray = before && is(before, "label")
      && !(before[$.control] && drawn(before[$.control])); // a label that names no field which is seen
    const labels = !el[$.labels]?.length && INPUTS.has(kind) && stray ? [before] : el[$.labels];
    if (labels?.length && kind !== "BUTTON") {
      name = read(Array.from(labels), { skip: el }) || cut(attribute(labels[0], "title"));
      if (name) return [name, true];
    }
    if (!FIELDS.has(role) && role !== "listbox" && kind !== "INPUT") name = read([el]);
    if (!/[\p{L}\p{N}]/u.test(name)) name = cut(attribute(el, "title")) || name; // a sign, such as ✕
    return [name || cut(el[$.alt] || "") || cut(el[$.placeholder] || attribute(el, "aria-placeholder"))
      || cut(attribute(el, "title")) || cut(described(el)) || (FIELDS.has(role) ? "" : cut(pictured(el) || iconOf(el))), false];
  }

  function valueOf(el, role) {
    switch (tag(el)) {
      case "SELECT": return Array.from(el[$.selectedOptions], (option) => squeeze(option.label)).join(", ");
      case "TEXTAREA": return el[$.value];
      case "INPUT":
        if (el[$.type] === "password") return "•".repeat(el[$.value].length);
        if (el[$.type] === "file") return Array.from(el[$.files], (file) => file.name).join(", ");
        return FIELDS.has(role) || el[$.type] === "color" ? el[$.value] : null;
    }
    if (!FIELDS.has(role)) return null;
    return attribute(el, "aria-valuetext") || attribute(el, "aria-valuenow") || squeeze(el[$.innerText] || "");
  }

  function statesOf(el) {
    const aria = (name) => el[$.getAttribute](`aria-${name}`) === "true";
    const has = {
      checked: el[$.checked] === true || aria("checked"), selected: aria("selected"), pressed: aria("pressed"),
      expanded: aria("expanded") || (tag(el) === "SUMMARY" && el[$.parentNode][$.open] === true),
      disabled: el[$.matches](":disabled") || aria("disabled"),
      readonly: (el[$.readOnly] === true && el[$.matches](":read-only")) || aria("readonly"),
      required: el[$.required] === true || aria("required"),
      current: !["", "false"].includes(attribute(el, "aria-current")), invalid: aria("invalid"),
    };
    return Object.keys(has).filter((name) => has[name]);
  }

  // What a field asks for, where the page says so: the HTML type, or the last word of `autocomplete`.
  function asksOf(el) {
    if (!INPUTS.has(tag(el))) return null;
    const type = typed(el);
    if (["password", "file"].includes(type)) return type;
    const token = squeeze(attribute(el, "autocomplete")).toLowerCase().replace(/ webauthn$/, "").split(" ").pop();
    if (token && !["on", "off"].includes(token)) return token.slice(0, 40).toWellFormed();
    return ["email", "tel"].includes(type) ? type : null;
  }

  // What a field suggests for its value, while it has the focus.
  function suggestionsOf(el) {
    if (!el[$.list] || el[$.ownerDocument][$.activeElement] !== el) return "";
    const options = Array.from(el[$.list][$.querySelectorAll]("option"), (option) => squeeze(option.label || option.value));
    const fitting = options.filter((option) => option.toLowerCase().includes(el[$.value].toLowerCase())).slice(0, 10);
    return fitting.length ? `(suggestions: ${unmarked(fitting.join(", "))}) ` : "";
  }

  // The form of a field, or the form that a button submits.
  function formOf(el) {
    if (tag(el) === "BUTTON") return el[$.type] === "submit" ? el[$.form] : null;
    return ["button", "reset"].includes(typed(el)) ? null : el[$.form] || null;
  }

  // All that it says except its name, a line each, for the gate: words seen instead of the name, unseen words, titles,
  // and the end of what is too long for a name; `deep`: also words that styles write. Null where that is nothing.
  function shownOf(box, el, role, name, deep) {
    if (FIELDS.has(role) || role === "listbox") return null;
    const whole = box[$.innerText] ?? box[$.textContent], last = whole.trim().split(/\n+/).pop();
    const parts = [box, ...Array.from(box[$.querySelectorAll]("*")).slice(0, 40)];
    const titles = parts.map((part) => is(part, "title") ? part[$.textContent] : attribute(part, "title") || attribute(part, "aria-label"));
    const drawn = (deep || !name ? parts : []).map((part) => ["::before", "::after"].map((side) => stringsOf(getComputedStyle(part, side), part)).join(" "));
    const words = squeeze(whole), ends = words.length > NAME_LIMIT ? [words.slice(0, 1000), words.slice(-NAME_LIMIT), last] : [words];
    const said = [...ends, tag(el) === "INPUT" && role === "button" ? el[$.value] : "", ...titles, ...drawn].map((text) => squeeze(text));
    return Array.from(new Set(said)).filter((text) => text !== name && /[\p{L}\p{N}]/u.test(text)).map(unmarked).join("\n").slice(0, 4000).toWellFormed() || null;
  }

  // The words that a style writes at an element.
  const stringsOf = ({ content, display }, el) => display === "none" ? "" : Array.from(content.matchAll(/"((?:[^"\\]|\\.)*)"|attr\(([\w-]+)/g),
    ([, words, name]) => name ? attribute(el, name) : words.replace(/\\(.)/g, "$1")).join("");

  // Where a link leads or a button's form goes, as the page has it; null where nothing is said.
  function leadsTo(el, form) {
    const said = ["A", "AREA"].includes(tag(el)) ? attribute(el, "href")
      : tag(el) === "BUTTON" || ["submit", "image"].includes(typed(el))
        ? attribute(el, "formaction") || (form && attribute(form, "action")) : "";
    return said ? said.slice(0, 2000).toWellFormed() : null;
  }

  const WRITTEN = new Set(["checked", "selected", "pressed", "expanded", "disabled", "current", "invalid"]);

  let whole = { before: 0, place: [1, 0, 0, 1, 0, 0], size: null }; // of a frame that is read as part of another page

  // The page now, the element of each of its marks, and its frames of other origins.
  function read(textLimit, before = whole.before, deep = false) {
    const marked = [], elements = [], lines = [], forms = new Map(), widgets = new Map(), left = new Set();
    const foreign = [], frames = [], [wide, high] = whole.size || [innerWidth, innerHeight];
    let line = "", cellDue = false, written = before, visited = 0;
    let large = document[$.getElementsByTagName]("*").length > LARGE;
    const flush = () => {
      line = unmarked(collapse(line)).replaceAll(MARK, () => `[${++written}]`);
      if (line) lines.push(line);
      line = "";
      cellDue = false;
    };
    const add = (text) => {
      if (cellDue && text.trim()) {
        line += " | ";
        cellDue = false;
      }
      line += text;
    };
    const put = (text) => add(clean(text));

    function mark(el, target, role, place) {
      const [name] = nameOf(target, role);
      const value = valueOf(target, role)?.slice(0, textLimit).toWellFormed() ?? null;
      const states = statesOf(target), { x, y, width, height } = around(rectOf(el), place);
      const shown = states.filter((state) => WRITTEN.has(state));
      if (x + width <= 0 || y + height <= 0 || x >= wide || y >= high) states.push("offscreen");
      marked.push(el);
      const box = [x, y, width, height].map((n) => Math.round(n * 10) / 10);
      const form = formOf(target);
      if (form && !forms.has(form)) forms.set(form, forms.size + 1);
      const said = [asksOf(target), form ? forms.get(form) : null, shownOf(el, target, role, name, deep), leadsTo(target, form)];
      elements.push([role, name, value, box, states, ...said]);
      add(` ${name || role}${value === null ? "" : `: "${squeeze(value)}"`}`
        + `${shown.length ? ` (${shown.join(", ")})` : ""} ${MARK} ${suggestionsOf(target)}`);
      return name;
    }

    function walkFrame(el, place, depth) {
      const rect = el[$.getBoundingClientRect]();
      flush();
      const inner = within(el), own = placeOf(el);
      if (inner?.[$.body] && own) {
        walk(inner[$.documentElement], place.multiply(own), true, false, false, depth + 1);
      } else if (rect.width > 1 && rect.height > 1) {
        let origin = "null";
        try { origin = new URL(el[$.src], el[$.baseURI]).origin; } catch { /* a frame without an address */ }
        put(`(frame: ${origin})`);
        if (own) {
          const { a, b, c, d, e, f } = place.multiply(own);
          foreign.push(el);
          frames.push([a, b, c, d, e, f]);
          line += FRAME;
        }
      }
      flush();
    }

    // The links of a picture's map, which may stand anywhere.
    function walkMap(picture, place) {
      const name = CSS.escape(attribute(picture, "usemap").slice(1));
      const areas = Array.from(picture[$.ownerDocument][$.querySelectorAll](`map[name="${name}"] area[href]`));
      if (!areas.length || mapped(areas[0]) !== picture) return;
      for (const area of areas.slice(0, MOST.marks - marked.length)) {
        const rect = rectOf(area);
        if (rect.width && rect.height && !unreachable(picture, rect)) mark(area, area, "link", place);
      }
    }

    // Whether a large page is left out here: far from the viewport, or when enough was read.
    function far(el, place) {
      if (large) {
        const { x, y, width, height } = around(el[$.getBoundingClientRect](), place);
        const above = y + height < -AROUND * innerHeight, below = y > (1 + AROUND) * innerHeight;
        const aside = x + width < -AROUND * innerWidth || x > (1 + AROUND) * innerWidth;
        if (width && height && (above || below)) left.add(above ? "above" : "below");
        if (width && height && (above || below || aside)) return true;
      }
      visited += 1;
      large ||= visited > 2 * LARGE;
      return (visited > MOST.nodes || marked.length >= MOST.marks) && left.add("below");
    }

    function walk(node, place, shown, clickableAbove, silent, depth) {
      if (isText(node)) {
        if (!shown || silent || !node[$.data]) return;
        const parent = flatParent(node), data = legible(node, parent);
        const space = styleOf(parent).whiteSpaceCollapse;
        if (!space.startsWith("preserve") || !data.includes("\n")) return put(data);
        data.split("\n").forEach((part, index) => { if (index) flush(); put(part); });
        return;
      }
      if (!isElement(node) || SKIP.has(tag(node)) || depth > DEPTH || far(node, place)) return;
      const el = node, kind = tag(el);
      if (kind === "BR") return flush();
      const style = styleOf(el), seen = sight(el, style);
      if (!seen.open) return;

      const block = !isInline(style) && style.display !== "table-cell";
      if (block) flush();
      if (style.display === "table-cell" && line.trim()) cellDue = true;
      if (kind === "IFRAME" || kind === "FRAME") {
        if (seen.shown) walkFrame(el, place, depth);
        return;
      }

      let role = seen.shown ? roleOf(el, style, clickableAbove) : null, target = el;
      const control = seen.shown && (kind === "LABEL" ? el[$.control] : unseen.get(el));
      if (control && HIDDEN_BOXES.has(typed(control)) && !drawn(control)) {
        target = control; // a hidden control: its label is what a human clicks
        role = roleOf(target, styleOf(target), false);
      }
      if (role) {
        const rect = rectOf(el);
        if (!rect.width || !rect.height || unreachable(el, rect) || dialogs.length && covered(el, rect)) role = null;
        else if (el[$.closest]("[inert]") || style.pointerEvents === "none" && (!INPUTS.has(kind) || HIDDEN_BOXES.has(typed(el))) && !disabled(el)) role = null;
      }
      const named = role && mark(el, target, role, place);
      const inner = INPUTS.has(kind) ? [] : children(el);
      if (kind === "IMG") {
        if (seen.shown && !role && !silent && el[$.alt]) put(el[$.alt]);
        if (seen.shown && el[$.hasAttribute]("usemap")) walkMap(el, place);
      } else if (!role || (target === el && hasWidget(el, depth))) {
        const hush = silent || (kind === "LABEL" && speaksFor(el)) || (named && named === squeeze(textOf(el)));
        if (seen.shown && !hush) put(generated(el, "before"));
        for (const child of inner) walk(child, place, seen.shown, clickableAbove || Boolean(role), hush, depth + 1);
        if (seen.shown && !hush) put(generated(el, "after"));
        if (/^(asc|desc)ending$/.test(attribute(el, "aria-sort"))) put(` (sorted ${attribute(el, "aria-sort")})`);
      }
      if (block) flush();
    }

    // Whether an interactive element lies within an interactive one (then its inside is written too).
    function hasWidget(el, depth) {
      if (widgets.has(el)) return widgets.get(el);
      const isWidget = (child) => {
        if (!isElement(child) || SKIP.has(tag(child))) return false;
        const style = styleOf(child), seen = sight(child, style);
        return seen.open && ((seen.shown && Boolean(roleOf(child, style, true))) || hasWidget(child, depth + 1));
      };
      const found = depth < DEPTH && Array.prototype.some.call(children(el), isWidget);
      widgets.set(el, found);
      return found;
    }

    // Whether a label's words are the name of a visible field, and so are written there.
    function speaksFor(label) {
      const control = label[$.control];
      return control && drawn(control) && nameOf(control, roleOf(control, styleOf(control), false))[1];
    }

    forget();
    reveals.length = 0;
    opens = findOpeners();
    dialogs = findDialogs();
    unseen = findUnseen();
    const root = document[$.documentElement];
    if (root) walk(root, new DOMMatrix(whole.place), true, false, false, 0);
    flush();
    let text = lines.join("\n");
    if (text.length > textLimit) {
      const kept = text.slice(0, textLimit).toWellFormed();
      text = `${kept}\n(${text.length - kept.length} more characters left out)`;
    }
    if (left.has("above")) text = `(large page: what is far above is left out; scroll up to read it)\n${text}`;
    if (left.has("below")) text += "\n(large page: what is far below is left out; scroll down to read it)";
    forget();
    const title = unmarked(squeeze(document[$.title].slice(0, TITLE_LIMIT)));
    return [{ url: location.href, title, text, elements, frames, size: [wide, high] }, marked, foreign];
  }

  // What the page's own validation said to a click or to Enter.
  let hand = -Infinity, refusal = "";
  for (const type of ["click", "keydown"]) {
    addEventListener(type, (event) => {
      if (event.isTrusted && (type === "click" || event.key === "Enter")) [hand, refusal] = [performance.now(), ""];
    }, true);
  }
  addEventListener("invalid", ({ target }) => {
    if (refusal || performance.now() - hand > 200) return;
    const name = nameOf(target, "textbox")[0] || target[$.name];
    refusal = `The page does not take "${name}": ${unmarked(squeeze(target[$.validationMessage])).slice(0, 200)}`;
  }, true);

  let marks = [], rows = [], outer = []; // elements by mark, and what was said of them; frames of other origins
  function snapshot(textLimit, within = whole) {
    whole = within;
    const [page, marked, foreign] = read(textLimit);
    [marks, rows, outer] = [marked, page.elements, foreign];
    [page.refusal, refusal] = [refusal, ""];
    return page;
  }

  // The element of a mark. One that the page has drawn anew is found by its role, its name and its place.
  function element(mark) {
    const row = mark - 1 - whole.before, el = marks[row];
    if (!el || el[$.isConnected]) return el;
    const [role, name, , box] = rows[row], [page, marked] = read(0);
    const far = (at) => Math.abs(page.elements[at][3][0] - box[0]) + Math.abs(page.elements[at][3][1] - box[1]);
    const same = page.elements.map((_, at) => at).filter((at) => page.elements[at][0] === role && page.elements[at][1] === name);
    const [at] = same.sort((one, other) => far(one) - far(other));
    if (at !== undefined && far(at) < NEAR) marks[row] = marked[at];
    return marks[row];
  }

  return { snapshot, read, nameOf, disabled, hostsEditing, editorOf, element, frame: (index) => outer[index] };
})());
