// What every page of the site has: the search field of its header, and the link to copy.
'use strict';
(() => {
for (const button of document.querySelectorAll('.copy')) {
  button.hidden = false;
  button.addEventListener('click', async () => {
    const done = () => { button.textContent = 'Copied'; };
    try {
      await navigator.clipboard.writeText(location.href);
      done();
    } catch (error) {  // Without permission, as for a file.
      const field = document.createElement('input');
      field.value = location.href;
      field.setAttribute('aria-label', 'Link');
      button.after(field);
      field.select();
      if (document.execCommand('copy')) done();
    }
  });
}

const box = document.getElementById('search');
if (!box) return;
addEventListener('keydown', event => {
  if (event.key !== '/' || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
  event.preventDefault();
  box.focus();
});
if (box.dataset.leads) {
  box.addEventListener('keydown', event => {
    if (event.key === 'Enter' && box.value.trim())
      location.assign(`${box.dataset.leads}?q=${encodeURIComponent(box.value.trim())}`);
  });
}
})();
