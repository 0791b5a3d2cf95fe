// SPDX-License-Identifier: Apache-2.0
// j and k go along the lines of the queue, x ticks one, Enter opens its device. Can be turned off, as WCAG 2.1.4 asks.
"use strict";
(() => {
  const lines = [...document.querySelectorAll("tr[data-item]")];
  const button = document.getElementById("keys");
  if (!lines.length || !button) return;
  const KEPT = "pratique-queue-keys";
  let isOn = localStorage.getItem(KEPT) !== "off";

  const show = () => {
    button.hidden = false;
    button.setAttribute("aria-pressed", String(isOn));
    button.textContent = isOn ? "Keys are on" : "Keys are off";
  };
  button.addEventListener("click", () => {
    isOn = !isOn;
    localStorage.setItem(KEPT, isOn ? "on" : "off");
    show();
  });
  show();

  const here = () => lines.findIndex((line) => line.contains(document.activeElement));
  const go = (to) => {
    const line = lines[Math.max(0, Math.min(to, lines.length - 1))];
    (line.querySelector("input") || line.querySelector("a")).focus();
    line.scrollIntoView({ block: "nearest" });
  };
  const isWriting = (one) => one.matches("input:not([type=checkbox]), textarea, select");

  document.addEventListener("keydown", (event) => {
    if (!isOn || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
    const at = here();
    const line = lines[at];
    if (event.key === "j") go(at + 1);
    else if (event.key === "k") go(at < 0 ? lines.length - 1 : at - 1);
    else if (event.key === "x" && line && line.querySelector("input")) line.querySelector("input").click();
    else if (event.key === "Enter" && line && event.target.matches("input") && line.querySelector("a")) line.querySelector("a").click();
    else return;
    event.preventDefault();
  });
})();
