// Before anything is spent: once, with the figure.
import { h } from "./dom.js";
import { amount, guarantee } from "./format.js";

/** Ask whether to spend what a quote costs; resolves to true or false. */
export function confirmSpending(quote, total) {
  return new Promise((resolve) => {
    const after = quote.left_after;
    const dialog = h(
      "dialog",
      { class: "confirm", "aria-labelledby": "confirm-title" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "confirm-title" }, `Spend ${guarantee(quote.price)}?`),
        after &&
          h(
            "p",
            `It leaves ε ${amount(after.epsilon)} of ${amount(total)}. What is spent doesn't come back; `,
            "the answer stays yours, and is free from then on.",
          ),
        (quote.expected ?? []).length > 0 &&
          h(
            "p",
            { class: "note" },
            "Expected error: ",
            quote.expected
              .map((one) => `${one.name} ${one.text === "with the answer" ? "known with the answer" : `± ${one.text}`}`)
              .join(" · "),
          ),
        h(
          "div",
          { class: "buttons" },
          h("button", { value: "no", class: "quiet" }, "Cancel"),
          h("button", { value: "yes", class: "primary", autofocus: true }, `Spend ${guarantee(quote.price)}`),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector(".primary").focus();
  });
}
