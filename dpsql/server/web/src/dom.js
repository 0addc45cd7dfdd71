// Elements, written as calls: h("p", { class: "note" }, "text", h("b", "more")).

/** An element. Properties that begin with "on" are listeners; null and false leave a property or a child out. */
export function h(tag, ...rest) {
  const element = document.createElement(tag);
  const [first] = rest;
  const plain = first !== null && typeof first === "object" && !(first instanceof Node) && !Array.isArray(first);
  for (const [name, value] of Object.entries(plain ? rest.shift() : {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children(rest));
  return element;
}

/** Put these children in place of those that an element has. */
export function fill(element, ...rest) {
  element.replaceChildren(...children(rest));
  return element;
}

function children(list) {
  return list.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false && one !== "");
}

/** A drawing of 24 × 24 that screen readers pass over. */
export function icon(path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "icon");
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "path");
  drawn.setAttribute("d", path);
  svg.append(drawn);
  return svg;
}

export const ICONS = {
  play: "M8 5.5v13l10.5-6.5z",
  menu: "M4 7h16M4 12h16M4 17h16",
  moon: "M20 14.5A8.2 8.2 0 0 1 9.5 4a8.2 8.2 0 1 0 10.5 10.5z",
  leave: "M14 4h4a2 2 0 0 1 2 2v12a2 2 0 0 1-2 2h-4M10 8l-4 4 4 4M6 12h9",
  down: "M12 4v11M7.5 11l4.5 4.5 4.5-4.5M5 20h14",
};

/** Radio buttons in a row, of which one is chosen. choices: value -> label. */
export function segmented(label, choices, chosen, onchange) {
  const name = `choice-${(segmented.count = (segmented.count ?? 0) + 1)}`;
  const buttons = Object.entries(choices).map(([value, text]) =>
    h("label",
      h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchange(value) }),
      h("span", text)));
  return h("div", { class: "segmented", role: "radiogroup", "aria-label": label }, buttons);
}

/** Tabs over panels of which one is seen. tabs: [title, panel]; the arrows move between them. */
export function tabbed(label, tabs, onchange = () => {}) {
  const buttons = tabs.map(([title, panel], i) => {
    panel.id ||= `panel-${(tabbed.count = (tabbed.count ?? 0) + 1)}`;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-label", title);
    return h("button", { type: "button", role: "tab", "aria-controls": panel.id, onclick: () => show(i) }, title);
  });
  function show(chosen) {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", i === chosen);
      button.tabIndex = i === chosen ? 0 : -1;
      tabs[i][1].hidden = i !== chosen;
    });
    onchange(chosen);
  }
  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    show(next);
    buttons[next].focus();
  }
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: move }, buttons);
  show(0);
  return { list, show };
}
