// Who asks: a token, or the link that the server printed, whose token is behind the #.
import { ask } from "./api.js";
import { fill, h } from "./dom.js";
import { themeButton } from "./theme.js";

/** Log in with the token of a link, if the address has one; the address forgets it. Returns why that failed, or null. */
export async function followLink() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return null;
  history.replaceState(null, "", location.pathname);
  try {
    await ask("/v1/login", { token });
    return null;
  } catch (error) {
    return error.status === 401 ? "This link was used before, or is none of this server's. Log in with a token." : error.message;
  }
}

/** The page that asks for a token; calls back when it was right. */
export function loginPage(said, onenter) {
  const trouble = h("p", { class: "trouble", role: "alert", id: "login-trouble" }, said ?? "");
  const token = h("input", { type: "password", id: "token", name: "token", autocomplete: "current-password", required: true, spellcheck: "false", "aria-describedby": "login-trouble" });
  const form = h("form", {
    class: "card login",
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        await ask("/v1/login", { token: token.value.trim() });
        onenter();
      } catch (error) {
        fill(trouble, error.status === 401 ? "Nobody is known by this token. It may have expired." : error.message);
        token.select();
      }
    },
  },
    h("img", { src: "/favicon.svg", alt: "", width: 44, height: 44 }),
    h("h1", "dpsql"),
    h("p", { class: "note" }, "Ask in SQL; answers carry noise, so that no one person can be told from them."),
    h("label", { for: "token" }, "Your token"), token, trouble,
    h("button", { class: "primary" }, "Log in"),
    h("p", { class: "note" }, "The steward makes one with ", h("code", "dpsql token add NAME"), "."));
  fill(document.body, h("div", { class: "login-page" }, h("div", { class: "login-corner" }, themeButton()), form));
  token.focus();
}
