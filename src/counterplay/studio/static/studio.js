// Four things that HTML alone cannot do: keys, no double sending, live numbers, local times.
"use strict";

(() => {
  const opened = performance.now();

  // A form is sent once; the button that sent it stays in the data.
  const once = (form) => {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) { event.preventDefault(); return; }
      form.dataset.sent = "yes";
      form.setAttribute("aria-busy", "true");
      const ms = form.querySelector('input[name="ms"]');
      if (ms) ms.value = String(Math.round(performance.now() - opened));
    });
  };
  document.querySelectorAll("form[data-once]").forEach(once);

  // A page that comes back from the browser's memory may be sent again.
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("form[data-sent]").forEach((form) => {
      delete form.dataset.sent;
      form.removeAttribute("aria-busy");
    });
  });

  // Keys press the button that carries them.
  if (document.querySelector("[data-key]")) {
    document.querySelectorAll(".keys").forEach((hint) => { hint.hidden = false; });
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      if (event.target.closest("input:not([type=hidden]), textarea, select")) return;
      const key = event.key.toLowerCase();
      const button = [...document.querySelectorAll("[data-key]")].find((b) => b.dataset.key === key);
      if (button && !button.disabled) { event.preventDefault(); button.click(); }
    });
  }

  // Times are UTC in the page; here they are told in the zone of the reader.
  const tongue = document.documentElement.lang;
  const own = navigator.languages.find((code) => code.startsWith(tongue)) || tongue;
  const told = new Intl.DateTimeFormat(own, { dateStyle: "long", timeStyle: "short" });
  document.querySelectorAll('time[datetime]:not([datetime=""])').forEach((time) => {
    time.title = time.textContent;
    time.textContent = told.format(new Date(time.dateTime));
  });

  // Copy a code.
  document.querySelectorAll("[data-copy]").forEach((button) => {
    const from = document.getElementById(button.dataset.copy);
    if (!from || !navigator.clipboard) return;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(from.value || from.textContent.trim());
      button.textContent = button.dataset.done;
    });
  });

  // Select a whole field by a click, so that a secret can be copied by hand.
  document.querySelectorAll("[data-select]").forEach((field) => {
    field.addEventListener("focus", () => field.select());
  });

  // Live numbers: each event is {name: text}; elements say by data-live which one they show.
  const live = document.querySelector("[data-events]");
  if (live && "EventSource" in window) {
    const source = new EventSource(live.dataset.events);
    source.addEventListener("numbers", (event) => {
      for (const [name, text] of Object.entries(JSON.parse(event.data))) {
        const [id, attribute] = name.split("@"); // a curve is an attribute of its line
        if (["points", "y", "y1", "y2", "width", "value", "max", "aria-label"].includes(attribute)) {
          document.getElementById(id)?.setAttribute(attribute, text);
          continue;
        }
        document.querySelectorAll(`[data-live="${CSS.escape(name)}"]`).forEach((element) => {
          const said = element.matches("time") && text ? told.format(new Date(text)) : text;
          if (element.textContent !== said) element.textContent = said;
          element.hidden = !text;
          element.closest("[data-slot]")?.toggleAttribute("hidden", !text);
        });
      }
    });
    source.addEventListener("reload", () => { window.location.reload(); });
    window.addEventListener("pagehide", () => source.close());
  }
})();
