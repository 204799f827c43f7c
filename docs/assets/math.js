// Typesets the formulas of a page: what pymdownx.arithmatex left as \(...\) and \[...\].
function typeset(element) {
  renderMathInElement(element, {
    delimiters: [
      { left: "\\(", right: "\\)", display: false },
      { left: "\\[", right: "\\]", display: true },
    ],
    ignoredTags: ["script", "noscript", "style", "textarea", "pre", "code", "option"],
    throwOnError: false,
  });
}

// A full stop or comma after a formula stays on its line: it moves into the last unbreakable part.
function keepMarks(formula) {
  const text = formula.nextSibling;
  const parts = formula.querySelectorAll(".katex-base");
  const marks = text?.nodeType === Node.TEXT_NODE && text.data.match(/^[.,;:)\]]+/);
  if (marks && parts.length) {
    text.data = text.data.slice(marks[0].length);
    parts[parts.length - 1].append(marks[0]);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  typeset(document.body);
  document.querySelectorAll("span.arithmatex").forEach(keepMarks);
  const results = document.querySelector(".md-search-result__list");
  if (results) {
    const watch = { childList: true, subtree: true };
    new MutationObserver(() => typeset(results)).observe(results, watch);
  }
});
