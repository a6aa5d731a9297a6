// Names and stops for screen readers and keyboards, where the theme has none.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
addEventListener("load", () => {
  document.querySelectorAll(".md-code__nav").forEach((menu, index) => menu.setAttribute("aria-label", `Code ${index + 1}`));
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, pre code")) part.tabIndex = 0;
});
