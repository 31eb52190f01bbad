// One pass over the flat tree: what a reader sees, and what can be acted on. Runs in an isolated world, so that pages
// neither see it nor can break it. Text format: docstring of snapshot.py.
"use strict";
globalThis.bestofq = (() => {
  const NAME_LIMIT = 200; // characters of an accessible name
  const WIDGETS = new Set(["button", "checkbox", "combobox", "link", "menuitem", "menuitemcheckbox", "menuitemradio",
    "option", "radio", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem"]);
  const INPUT_ROLES = { button: "button", submit: "button", reset: "button", image: "button", file: "button",
    color: "button", checkbox: "checkbox", radio: "radio", range: "slider", number: "spinbutton", search: "searchbox" };
  const FIELDS = new Set(["textbox", "searchbox", "combobox", "spinbutton", "slider"]);
  const BUTTON_VALUES = { submit: "Submit", reset: "Reset", image: "Submit" };
  const SKIP = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "OPTION", "OPTGROUP", "DATALIST", "VIDEO",
    "AUDIO", "CANVAS", "OBJECT", "EMBED"]);
  const NATIVE = "a[href],button,input,select,textarea,summary,[role],[contenteditable],[onclick],[tabindex]";
  const SVG = "http://www.w3.org/2000/svg";
  const squeeze = (text) => text.toWellFormed().replace(/\s+/g, " ").trim();
  const isInline = (style) => style.display.startsWith("inline") || style.display === "contents";
  const tag = (el) => el.tagName.toUpperCase();
  const typed = (el) => (tag(el) === "INPUT" ? el.type : "");
  const transparent = (el, style) => style.opacity === "0" && !["checkbox", "radio", "file"].includes(typed(el));

  function flatParent(node) {
    const parent = node.parentNode;
    return node.assignedSlot || (parent?.nodeType === Node.DOCUMENT_FRAGMENT_NODE ? parent.host : parent);
  }

  function children(node) {
    if (node.shadowRoot) return node.shadowRoot.childNodes;
    if (node.localName === "details" && !node.open) return node.querySelectorAll(":scope > summary:first-of-type");
    if (node.localName === "slot") {
      const assigned = node.assignedNodes({ flatten: true });
      if (assigned.length) return assigned;
    }
    return node.childNodes;
  }

  function rectOf(el) {
    const rect = el.getBoundingClientRect();
    if ((rect.width && rect.height) || !el.firstChild) return rect;
    const range = el.ownerDocument.createRange(); // an inline box around floats has no area of its own
    range.selectNodeContents(el);
    return range.getBoundingClientRect();
  }

  // An element as a human meets it: `shown` itself, `open` to its children (a hidden parent may have visible ones).
  // Transparent check boxes count as shown: they lie over drawn ones.
  function sight(el, style) {
    const no = { shown: false, open: false };
    if (style.display === "none" || transparent(el, style)) return no;
    if (style.display === "contents") return { shown: true, open: true };
    if ((style.overflowX !== "visible" || style.clip !== "auto") && tag(el) !== "BODY" && tag(el) !== "HTML") {
      const rect = el.getBoundingClientRect();
      if ((rect.width <= 1 || rect.height <= 1) && style.display !== "inline") return no;
    }
    return el.checkVisibility() ? { shown: style.visibility === "visible", open: true } : no;
  }

  function drawn(control) {
    const rect = control.getBoundingClientRect();
    return rect.width > 0 && rect.height > 0 && sight(control, getComputedStyle(control)).shown
      && flatParent(control).checkVisibility({ opacityProperty: true });
  }

  function hostsEditing(el) {
    return el.isContentEditable && !flatParent(el)?.isContentEditable;
  }

  function roleOf(el, style, clickableAbove) {
    for (const role of (el.getAttribute("role") || "").toLowerCase().split(/\s+/)) if (WIDGETS.has(role)) return role;
    switch (tag(el)) {
      case "A": case "AREA": if (el.hasAttribute("href")) return "link"; break;
      case "BUTTON": return "button";
      case "SUMMARY": if (el.parentNode?.localName === "details") return "button"; break;
      case "TEXTAREA": return "textbox";
      case "SELECT": return el.multiple || el.size > 1 ? "listbox" : "combobox";
      case "INPUT":
        if (el.type === "hidden") return null;
        return INPUT_ROLES[el.type] && !(el.list && el.type === "search") ? INPUT_ROLES[el.type]
          : el.list ? "combobox" : "textbox";
      case "HTML": case "BODY": case "IFRAME": return null;
    }
    if (hostsEditing(el)) return "textbox";
    if (el.hasAttribute("onclick")) return "clickable";
    if (squeeze(el.textContent).length > NAME_LIMIT) return null; // a region, not a button
    if (el.hasAttribute("tabindex") && el.tabIndex >= 0 && !el.hasAttribute("role")) return "clickable";
    if (style.cursor !== "pointer" || clickableAbove || tag(el) === "LABEL") return null;
    const parent = flatParent(el);
    if (parent.nodeType === Node.ELEMENT_NODE && getComputedStyle(parent).cursor === "pointer") return null;
    return el.querySelector(NATIVE) ? null : "clickable";
  }

  // The file name of a picture that stands for words: what a reader has of an icon without a name.
  function pictured(el, style = getComputedStyle(el)) {
    const url = el.currentSrc || [style.content, style.backgroundImage].join(" ").match(/url\("(?!data:)([^"]+)"\)/)?.[1];
    return url ? decodeURI(url).replace(/[?#].*$/, "").replace(/^.*\/|\.\w+$/g, "") : "";
  }

  // Text of a subtree as one line, for names: alternatives of images in place, blocks apart, `skip` left out.
  function textOf(node, skip, depth = 0) {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || node === skip || depth > 40) return "";
    if (node.localName === "title" && node.namespaceURI === SVG) return node.textContent;
    if (SKIP.has(tag(node)) || ["INPUT", "SELECT", "TEXTAREA"].includes(tag(node))) return "";
    if (tag(node) === "BR") return " ";
    if (depth) {
      if (node.getAttribute("aria-hidden") === "true") return "";
      if (tag(node) === "IMG") return node.getAttribute("aria-label") || node.alt;
      const style = getComputedStyle(node);
      if (node.namespaceURI !== SVG && !sight(node, style).shown) return "";
      const label = node.getAttribute("aria-label");
      if (label) return label;
      const text = Array.from(children(node), (child) => textOf(child, skip, depth + 1)).join("");
      return isInline(style) ? text : ` ${text} `;
    }
    return Array.from(children(node), (child) => textOf(child, skip, 1)).join("");
  }

  // Accessible name (W3C accname-1.2, the common cases), and whether it comes from the element's labels.
  function nameOf(el, role) {
    const ids = (el.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
    const found = ids.map((id) => el.getRootNode().getElementById(id)).filter(Boolean);
    const cut = (text) => squeeze(text).slice(0, NAME_LIMIT).trim();
    let name = cut(found.map((other) => textOf(other)).join(" ")) || cut(el.getAttribute("aria-label") || "");
    if (name) return [name, false];
    const kind = tag(el);
    if (kind === "INPUT" && role === "button" && el.type !== "file" && el.type !== "color") {
      return [cut(el.value || el.alt || el.title || BUTTON_VALUES[el.type] || ""), false];
    }
    if (el.labels?.length && kind !== "BUTTON") {
      name = cut(Array.from(el.labels, (label) => textOf(label, el)).join(" "));
      if (name) return [name, true];
    }
    if (!FIELDS.has(role) && role !== "listbox" && kind !== "INPUT") name = cut(textOf(el));
    return [name || cut(el.alt || "") || cut(el.placeholder || el.getAttribute("aria-placeholder") || "")
      || cut(el.getAttribute("title") || "") || (FIELDS.has(role) ? "" : cut(pictured(el))), false];
  }

  function valueOf(el, role) {
    switch (tag(el)) {
      case "SELECT": return Array.from(el.selectedOptions, (option) => squeeze(option.label)).join(", ");
      case "TEXTAREA": return el.value;
      case "INPUT":
        if (el.type === "password") return "•".repeat(el.value.length);
        if (el.type === "file") return Array.from(el.files, (file) => file.name).join(", ");
        return FIELDS.has(role) || el.type === "color" ? el.value : null;
    }
    if (!FIELDS.has(role)) return null;
    return el.getAttribute("aria-valuetext") || el.getAttribute("aria-valuenow") || squeeze(el.innerText || "");
  }

  function statesOf(el) {
    const aria = (name) => el.getAttribute(`aria-${name}`) === "true";
    const has = {
      checked: el.checked === true || aria("checked"), selected: aria("selected"), pressed: aria("pressed"),
      expanded: aria("expanded") || (tag(el) === "SUMMARY" && el.parentNode.open === true),
      disabled: el.matches(":disabled") || aria("disabled"),
      readonly: (el.readOnly === true && el.matches(":read-only")) || aria("readonly"),
      required: el.required === true || aria("required"),
    };
    return Object.keys(has).filter((name) => has[name]);
  }

  // What a field asks for, where the page says so: the HTML type, or the last word of `autocomplete`.
  function asksOf(el) {
    if (!["INPUT", "TEXTAREA", "SELECT"].includes(tag(el))) return null;
    if (["password", "file"].includes(typed(el))) return el.type;
    const token = squeeze(el.getAttribute("autocomplete") || "").toLowerCase().replace(/ webauthn$/, "").split(" ").pop();
    if (token && !["on", "off"].includes(token)) return token.slice(0, 40);
    return ["email", "tel"].includes(typed(el)) ? el.type : null;
  }

  // The form of a field, or the form that a button submits.
  function formOf(el) {
    if (tag(el) === "BUTTON") return el.type === "submit" ? el.form : null;
    return ["button", "reset"].includes(typed(el)) ? null : el.form || null;
  }

  const WRITTEN = new Set(["checked", "selected", "pressed", "expanded", "disabled"]);

  let marked = []; // element of mark n at n - 1
  function snapshot(textLimit) {
    marked = [];
    const elements = [], lines = [], forms = [];
    let line = "", cellDue = false;
    const flush = () => {
      line = squeeze(line);
      if (line) lines.push(line);
      line = "";
      cellDue = false;
    };
    const put = (text) => {
      if (cellDue && text.trim()) {
        line += " | ";
        cellDue = false;
      }
      line += text;
    };

    function mark(el, target, role, offset) {
      const [name] = nameOf(target, role);
      const value = valueOf(target, role)?.toWellFormed() ?? null, states = statesOf(target), rect = rectOf(el);
      const [x, y] = [rect.x + offset.x, rect.y + offset.y];
      const written = states.filter((state) => WRITTEN.has(state));
      if (x + rect.width <= 0 || y + rect.height <= 0 || x >= innerWidth || y >= innerHeight) states.push("offscreen");
      marked.push(el);
      const box = [x, y, rect.width, rect.height].map((n) => Math.round(n * 10) / 10);
      const form = formOf(target);
      if (form && !forms.includes(form)) forms.push(form);
      elements.push([role, name, value, box, states, asksOf(target), form ? forms.indexOf(form) + 1 : null]);
      put(` ${name || role}${value === null ? "" : `: "${squeeze(value)}"`}`
        + `${written.length ? ` (${written.join(", ")})` : ""} [${marked.length}] `);
    }

    function walkFrame(el, offset, depth) {
      const rect = el.getBoundingClientRect();
      flush();
      const inner = el.contentDocument;
      if (inner?.body) {
        const shift = { x: offset.x + rect.x + el.clientLeft, y: offset.y + rect.y + el.clientTop };
        walk(inner.documentElement, shift, true, false, false, depth + 1);
      } else if (rect.width > 1 && rect.height > 1) {
        let origin = "null";
        try { origin = new URL(el.src, el.baseURI).origin; } catch { /* a frame without an address */ }
        put(`(frame: ${origin})`);
      }
      flush();
    }

    function walk(node, offset, shown, clickableAbove, silent, depth) {
      if (node.nodeType === Node.TEXT_NODE) {
        if (!shown || silent || !node.data) return;
        const space = getComputedStyle(flatParent(node)).whiteSpaceCollapse;
        if (!space.startsWith("preserve") || !node.data.includes("\n")) return put(node.data);
        node.data.split("\n").forEach((part, index) => { if (index) flush(); put(part); });
        return;
      }
      if (node.nodeType !== Node.ELEMENT_NODE || SKIP.has(tag(node)) || depth > 400) return;
      const el = node, kind = tag(el);
      if (kind === "BR") return flush();
      const style = getComputedStyle(el), seen = sight(el, style);
      if (!seen.open) return;

      const block = !isInline(style) && style.display !== "table-cell";
      if (block) flush();
      if (style.display === "table-cell" && line.trim()) cellDue = true;
      if (kind === "IFRAME" || kind === "FRAME") {
        if (seen.shown) walkFrame(el, offset, depth);
        return;
      }

      let role = seen.shown ? roleOf(el, style, clickableAbove) : null, target = el;
      if (seen.shown && kind === "LABEL" && el.control && !drawn(el.control)) {
        target = el.control; // a hidden control: its label is what a human clicks
        role = roleOf(target, getComputedStyle(target), false);
      }
      if (role) {
        const rect = rectOf(el);
        if (!rect.width || !rect.height) role = null;
      }
      if (role) mark(el, target, role, offset);
      const inner = ["INPUT", "TEXTAREA", "SELECT"].includes(kind) ? [] : children(el);
      if (kind === "IMG") {
        if (seen.shown && !role && !silent && el.alt) put(el.alt);
      } else if (!role || (target === el && hasWidget(el))) {
        const hush = silent || (kind === "LABEL" && speaksFor(el));
        for (const child of inner) walk(child, offset, seen.shown, clickableAbove || Boolean(role), hush, depth + 1);
      }
      if (block) flush();
    }

    // Whether an interactive element lies within an interactive one (then its inside is written too).
    function hasWidget(el) {
      for (const child of children(el)) {
        if (child.nodeType !== Node.ELEMENT_NODE || SKIP.has(tag(child))) continue;
        const style = getComputedStyle(child);
        const seen = sight(child, style);
        if (!seen.open) continue;
        if (seen.shown && roleOf(child, style, true)) return true;
        if (hasWidget(child)) return true;
      }
      return false;
    }

    // Whether a label's words are the name of a visible check box or radio button, and so are written there.
    function speaksFor(label) {
      const control = label.control;
      if (!control || !["checkbox", "radio"].includes(typed(control))) return false;
      return drawn(control) && nameOf(control, typed(control))[1];
    }

    if (document.documentElement) walk(document.documentElement, { x: 0, y: 0 }, true, false, false, 0);
    flush();
    let text = lines.join("\n");
    if (text.length > textLimit) {
      const kept = text.slice(0, textLimit).toWellFormed();
      text = `${kept}\n(${text.length - kept.length} more characters left out)`;
    }
    return { url: location.href, title: squeeze(document.title), text, elements };
  }

  return { snapshot, squeeze, flatParent, nameOf, hostsEditing, element: (mark) => marked[mark - 1] };
})();
