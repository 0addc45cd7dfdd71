// Light or dark: as the system has it, until somebody chooses.
import { h, icon, ICONS } from "./dom.js";

const KEY = "dpsql-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = [];

function isDark() {
  const chosen = localStorage.getItem(KEY);
  return chosen ? chosen === "dark" : system.matches;
}

function apply() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  listeners.forEach((call) => call());
}

/** Follow the system, and what was chosen before. */
export function startTheme() {
  system.addEventListener("change", apply);
  apply();
}

/** Call this when colours change: charts are drawn anew. */
export function whenThemeChanges(call) {
  listeners.push(call);
}

/** The button that changes it. */
export function themeButton() {
  return h("button", {
    type: "button", class: "icon-button", title: "Light or dark", "aria-label": "change between light and dark",
    onclick: () => {
      localStorage.setItem(KEY, isDark() ? "light" : "dark");
      apply();
    },
  }, icon(ICONS.moon));
}
