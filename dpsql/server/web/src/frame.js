// Around the views: the bar at the top with what is left of the budget, and the drawer of narrow screens.
import { fill, h, icon, ICONS } from "./dom.js";
import { amount } from "./format.js";
import { themeButton } from "./theme.js";

/** The frame: { element, drawer(open), budget(found) }. views: name -> { element, load() }, the first is seen. */
export function frame({ me, views, side, onleave }) {
  const meter = h("div", { class: "meter" });
  const menu = h(
    "button",
    {
      type: "button",
      class: "icon-button menu",
      "aria-label": "tables, history and functions",
      "aria-expanded": "false",
      "aria-controls": side.id,
      onclick: () => drawer(),
    },
    icon(ICONS.menu),
  );
  const leave = h(
    "button",
    { type: "button", class: "icon-button", title: "Log out", "aria-label": "log out", onclick: onleave },
    icon(ICONS.leave),
  );
  const brand = h("span", { class: "brand" }, h("img", { src: "/favicon.svg", alt: "", width: 26 }), "dpsql");
  const who = h("span", { class: "who", title: me.role }, me.name);
  const names = Object.keys(views);
  const element = h(
    "div",
    { class: "app" },
    h("header", { class: "top" }, menu, brand, names.length > 1 && navigation(), meter, who, themeButton(), leave),
    side,
    h("div", { class: "veil", onclick: () => drawer(false) }),
    Object.values(views).map((view) => view.element),
  );

  function navigation() {
    const buttons = names.map((name) => h("button", { type: "button", onclick: () => go(name) }, name));
    function go(name) {
      names.forEach((other, i) => {
        views[other].element.hidden = other !== name;
        if (other === name) buttons[i].setAttribute("aria-current", "page");
        else buttons[i].removeAttribute("aria-current");
      });
      element.classList.toggle("wide", name !== names[0]);
      const { element: view, load } = views[name];
      load().catch((refusal) => fill(view, h("p", { class: "trouble", role: "alert" }, refusal.message)));
    }
    buttons[0].setAttribute("aria-current", "page");
    return h("nav", { "aria-label": "views" }, buttons);
  }

  function drawer(open = !element.classList.contains("drawer")) {
    element.classList.toggle("drawer", open);
    menu.setAttribute("aria-expanded", open);
  }

  /** Show what is left, and that it is little. */
  function budget({ remaining, quota, total, warning }) {
    const left = remaining.epsilon;
    const whole = quota ?? total.epsilon;
    const said = ` of ${amount(whole)} left`;
    meter.classList.toggle("low", Boolean(warning));
    fill(
      meter,
      h("span", { class: "meter-text" }, `ε ${amount(left)}`, h("span", { class: "of" }, said)),
      h("meter", { min: 0, max: whole, value: left, "aria-label": `ε ${amount(left)}${said}` }),
      warning && h("span", { class: "meter-warning", role: "status" }, warning),
    );
  }

  return { element, drawer, budget };
}
