// Sets the theme before the page is drawn: as chosen here before, or as the system has it. No module, so
// that it runs first.
(() => {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const chosen = () => { try { return localStorage.getItem('theme'); } catch { return null; } };
  const apply = () => {
    document.documentElement.dataset.theme = chosen() || (dark.matches ? 'dark' : 'light');
    dispatchEvent(new Event('theme'));
  };
  dark.addEventListener('change', apply);
  globalThis.setTheme = name => { try { localStorage.setItem('theme', name); } catch { /* this page alone */ } document.documentElement.dataset.theme = name; dispatchEvent(new Event('theme')); };
  apply();
})();
