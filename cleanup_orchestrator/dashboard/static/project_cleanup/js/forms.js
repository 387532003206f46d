/* Shows only the fields of the chosen mode, and copies commands.
 *
 * A field with data-pc-modes="purge" is shown, and sent, only while this mode is chosen. Without JavaScript all fields are
 * shown; their help says for which mode they are. A button .pc-copy copies the text of the <code> beside it.
 */
(function () {
  'use strict';

  function show(form) {
    var chosen = form.querySelector('input[name="mode"]:checked');
    if (!chosen) { return; }
    form.querySelectorAll('[data-pc-modes]').forEach(function (field) {
      var wanted = field.getAttribute('data-pc-modes').split(' ').indexOf(chosen.value) >= 0;
      field.disabled = !wanted;
      field.closest('.form-group').hidden = !wanted;
    });
  }

  function copy(code) {
    // The clipboard is available only over HTTPS. Otherwise the text is selected and copied.
    if (window.navigator.clipboard) { return window.navigator.clipboard.writeText(code.textContent); }
    var selection = window.getSelection();
    selection.selectAllChildren(code);
    return document.execCommand('copy') ? Promise.resolve() : Promise.reject();
  }

  function say(text) {
    var note = document.getElementById('pc-said');
    if (note) { note.textContent = text; }
  }

  document.documentElement.classList.add('pc-js');

  document.addEventListener('click', function (event) {
    var button = event.target.closest && event.target.closest('.pc-copy');
    if (!button) { return; }
    copy(button.parentNode.querySelector('code')).then(function () {
      button.textContent = button.getAttribute('data-pc-copied');
      say(button.textContent);
    }, function () {
      say(button.getAttribute('data-pc-not-copied'));
    });
  });

  document.addEventListener('DOMContentLoaded', function () {
    document.querySelectorAll('form').forEach(function (form) {
      if (form.querySelector('[data-pc-modes]')) {
        show(form);
        form.addEventListener('change', function () { show(form); });
      }
    });
  });
}());
