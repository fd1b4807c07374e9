// Sets light or dark before anything is drawn: as chosen on this page, or else as the system has it.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("tagloom-theme");
  const apply = () => {
    const dark = (chosen() ?? (system.matches ? "dark" : "light")) === "dark";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = dark ? "Light" : "Dark";
      button.setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
    }
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme")?.addEventListener("click", () => {
      localStorage.setItem("tagloom-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
      apply();
    });
  });
})();
