// Typesets the formulas of a page: what pymdownx.arithmatex left as \(...\) and \[...\].
document.addEventListener("DOMContentLoaded", () => {
  renderMathInElement(document.body, {
    delimiters: [
      { left: "\\(", right: "\\)", display: false },
      { left: "\\[", right: "\\]", display: true },
    ],
    ignoredTags: ["script", "noscript", "style", "textarea", "pre", "code", "option"],
    throwOnError: false,
  });
  // A full stop or comma after a formula stays on its line: it moves into the last unbreakable part.
  for (const formula of document.querySelectorAll("span.arithmatex")) {
    const text = formula.nextSibling;
    const parts = formula.querySelectorAll(".base");
    const marks = text?.nodeType === Node.TEXT_NODE && text.data.match(/^[.,;:)\]]+/);
    if (marks && parts.length) {
      text.data = text.data.slice(marks[0].length);
      parts[parts.length - 1].append(marks[0]);
    }
  }
});
