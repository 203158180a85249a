"use strict";
// Renews the progress while something runs, and says before a page with changes is left.
(function () {
  const place = document.getElementById("progress");
  async function renew() {
    if (!place || !place.querySelector("[data-running]")) return;
    try {
      const answer = await fetch(place.dataset.address, { credentials: "same-origin" });
      if (answer.ok) {
        const text = await answer.text();
        if (text !== place.dataset.shown) { place.innerHTML = text; place.dataset.shown = text; }
        if (!place.querySelector("[data-running]")) location.reload(); // Releases and reports are new, too
      }
    } catch (error) { /* the studio was ended */ }
    setTimeout(renew, 700);
  }
  renew();
  let changed = false;
  document.addEventListener("input", (event) => { if (event.target.closest("form[data-keep]")) changed = true; });
  document.addEventListener("submit", (event) => { if (event.target.matches("form[data-keep]")) changed = false; });
  window.addEventListener("beforeunload", (event) => { if (changed) event.preventDefault(); });
})();
