"use strict";
// Without this script the page still says everything: it opens what a link leads to, and everything for paper.
(() => {
  const drills = [...document.querySelectorAll("details.drill")];
  const show = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const found = id ? document.getElementById(id) : null;
    if (found && found.matches("details.drill")) {
      found.open = true;
      found.querySelector("summary").focus({ preventScroll: true });
      found.scrollIntoView();
    }
  };
  addEventListener("hashchange", show);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#drill-']");
    if (link && link.hash === location.hash) show();
  });
  const tools = document.querySelector(".tools");
  if (tools) {
    tools.hidden = false;
    tools.querySelector("[data-do=open]").addEventListener("click", () => drills.forEach((one) => { one.open = true; }));
    tools.querySelector("[data-do=close]").addEventListener("click", () => drills.forEach((one) => { one.open = false; }));
    const only = tools.querySelector("[data-do=bad]");
    only.addEventListener("click", () => {
      const on = only.getAttribute("aria-pressed") !== "true";
      only.setAttribute("aria-pressed", String(on));
      drills.forEach((one) => { one.hidden = on && one.dataset.proven === "yes"; });
    });
  }
  let before = null;
  addEventListener("beforeprint", () => { before = drills.map((one) => one.open); drills.forEach((one) => { one.open = true; }); });
  addEventListener("afterprint", () => { if (before) drills.forEach((one, at) => { one.open = before[at]; }); before = null; });
  show();
})();
