// The SQL editor: CodeMirror with the policy's names, and the refusal under the words that it is about.
import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { PostgreSQL, sql } from "@codemirror/lang-sql";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment, Prec, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, keymap, placeholder, WidgetType } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { minimalSetup } from "codemirror";
import { completions } from "./complete.js";
import { h } from "./dom.js";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--code-type)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--ink-faint)", fontStyle: "italic" },
]);

const look = EditorView.theme({
  "&": { fontSize: "14px", backgroundColor: "transparent", color: "var(--ink)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", minHeight: "9.5rem", maxHeight: "45vh" },
  ".cm-content": { padding: "14px 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 16px" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, ::selection": {
    backgroundColor: "var(--selection) !important",
  },
  ".cm-tooltip": {
    border: "1px solid var(--line-strong)", borderRadius: "8px", overflow: "hidden",
    backgroundColor: "var(--raised)", color: "var(--ink)", boxShadow: "var(--shadow)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px", maxHeight: "15rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "4px 10px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent-soft)", color: "var(--ink)",
  },
  ".cm-completionMatchedText": { textDecoration: "none", color: "var(--accent)", fontWeight: "600" },
  ".cm-completionDetail": { color: "var(--ink-soft)", fontStyle: "normal", marginLeft: "1em" },
  ".cm-completionInfo": { padding: "6px 10px", maxWidth: "20rem", fontFamily: "var(--sans)" },
  ".cm-placeholder": { color: "var(--ink-faint)" },
});

// ---------------------------------------------------------------- the refusal

class Refused extends WidgetType {
  constructor(refusal, column) {
    super();
    Object.assign(this, { refusal, column });
  }

  eq(other) {
    return other.refusal === this.refusal && other.column === this.column;
  }

  toDOM() {
    const { message, hint } = this.refusal;
    return h("div", { class: "refusal", style: `--column: ${this.column}` },
      h("div", { class: "refusal-box" },
        h("p", { class: "refusal-message" }, message),
        hint && h("p", { class: "refusal-hint" }, hint)));
  }

  ignoreEvent() {
    return true; // its text can be selected and copied
  }
}

const refuse = StateEffect.define();
const refused = StateField.define({
  create: () => Decoration.none,
  update(marks, change) {
    for (const effect of change.effects) if (effect.is(refuse)) return marksOf(change.state, effect.value);
    return marks.map(change.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** The words that a refusal points to, underlined, and below their line what it says. */
function marksOf(state, refusal) {
  if (!refusal?.span) return Decoration.none;
  const { line: number, column, length } = refusal.span;
  const line = state.doc.line(Math.min(Math.max(number, 1), state.doc.lines));
  const from = Math.min(line.from + codeUnits(line.text, column - 1), line.to);
  const to = Math.min(Math.max(from + codeUnits(line.text.slice(from - line.from), length), from), state.doc.length);
  const marks = [Decoration.widget({ widget: new Refused(refusal, from - line.from), block: true, side: 1 }).range(line.to)];
  if (to > from) marks.unshift(Decoration.mark({ class: "refused" }).range(from, to));
  return Decoration.set(marks, true);
}

/** How many UTF-16 units the first characters of a text take: the server counts characters. */
function codeUnits(text, characters) {
  return Array.from(text).slice(0, Math.max(characters, 0)).join("").length;
}

// ---------------------------------------------------------------- the editor

/** An editor: { element, text(), write(sql), refuse(refusal or null), know(schema, functions), focus() }. */
export function editor({ text, onchange, onrun }) {
  const language = new Compartment();
  const run = () => {
    onrun();
    return true;
  };
  const view = new EditorView({
    doc: text,
    extensions: [
      Prec.highest(keymap.of([{ key: "Mod-Enter", run }])),
      minimalSetup,
      keymap.of(completionKeymap),
      autocompletion({ icons: false, activateOnTypingDelay: 60 }),
      language.of(sql({ dialect: PostgreSQL, upperCaseKeywords: true })),
      syntaxHighlighting(colours),
      look,
      refused,
      placeholder("SELECT … FROM … GROUP BY …"),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": "SQL query", "data-testid": "sql" }),
      EditorView.updateListener.of((update) => update.docChanged && onchange(view.state.doc.toString())),
    ],
  });
  return {
    element: view.dom,
    text: () => view.state.doc.toString(),
    write: (sql) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: sql } }),
    insert(name) {
      view.dispatch(view.state.replaceSelection(name));
      view.focus();
    },
    refuse: (refusal) => view.dispatch({ effects: refuse.of(refusal) }),
    know(schema, functions) {
      const tables = Object.fromEntries(schema.map((t) => [t.name, t.columns.map((c) => ({ label: c.name, detail: c.type }))]));
      view.dispatch({ effects: language.reconfigure([
        sql({ dialect: PostgreSQL, schema: tables, upperCaseKeywords: true }),
        PostgreSQL.language.data.of({ autocomplete: completions(schema, functions) }),
      ]) });
    },
    focus: () => view.focus(),
  };
}
