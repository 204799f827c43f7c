(function () {
  "use strict";
  var root = document.documentElement;
  var memory = {
    get: function () { try { return localStorage.getItem("counterplay-theme"); } catch (e) { return null; } },
    set: function (value) { try { localStorage.setItem("counterplay-theme", value); } catch (e) { /* private window */ } }
  };
  var button = document.getElementById("theme");
  var chosen = memory.get();
  if (chosen === "light" || chosen === "dark") { root.dataset.theme = chosen; }
  button.hidden = false;
  button.addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    memory.set(root.dataset.theme);
  });

  if (navigator.clipboard) {
    document.querySelectorAll("button.copy").forEach(function (copy) {
      copy.hidden = false;
      copy.addEventListener("click", function () {
        navigator.clipboard.writeText(copy.previousElementSibling.textContent).then(function () {
          copy.textContent = "Copied";
          setTimeout(function () { copy.textContent = "Copy"; }, 1500);
        });
      });
    });
  }

  var links = {};
  document.querySelectorAll("nav ol a").forEach(function (link) { links[link.hash.slice(1)] = link; });
  if ("IntersectionObserver" in window) {
    var seen = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (!entry.isIntersecting) { return; }
        Object.keys(links).forEach(function (id) { links[id].removeAttribute("aria-current"); });
        links[entry.target.id].setAttribute("aria-current", "true");
        var list = links[entry.target.id].closest("ol");
        if (list.scrollWidth > list.clientWidth) {
          list.scrollLeft = links[entry.target.id].offsetLeft - list.offsetLeft - 24;
        }
      });
    }, { rootMargin: "-15% 0px -80% 0px" });
    Object.keys(links).forEach(function (id) { seen.observe(document.getElementById(id)); });
  }

  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (item) { item.open = true; });
  });
})();
