/* Keeps the moving parts of a page up to date.
 *
 * An element with data-pc-refresh="NAME" is replaced every five seconds by the one of the same name in a new copy of the
 * page, as long as it has data-pc-moving="true". Without JavaScript the user loads the page again. If the page cannot be
 * loaded, or the login has expired (the answer is a redirect), #pc-stale says so.
 */
(function () {
  'use strict';
  var PERIOD = 5000;
  var failures = 0;

  function moving() {
    return document.querySelector('[data-pc-refresh][data-pc-moving="true"]');
  }

  function busy(element) {
    // An element is not replaced while the user types in it or selects text in it.
    var selection = window.getSelection();
    var active = document.activeElement;
    return (active.matches('input, select, textarea') && element.contains(active)) ||
      (!selection.isCollapsed && selection.containsNode(element, true));
  }

  function put(old, fresh) {
    // What is open stays open, and the focus stays where it is, if the element has an id.
    var focused = old.contains(document.activeElement) && document.activeElement.id;
    var made = document.importNode(fresh, true);
    old.querySelectorAll('details[id]').forEach(function (before) {
      var after = made.querySelector('#' + CSS.escape(before.id));
      if (after) { after.open = before.open; }
    });
    old.replaceWith(made);
    var target = focused && document.getElementById(focused);
    if (target) { target.focus({preventScroll: true}); }
  }

  function stale(is) {
    var note = document.getElementById('pc-stale');
    if (note) { note.hidden = !is; }
  }

  function replace(text) {
    var page = new DOMParser().parseFromString(text, 'text/html');
    document.querySelectorAll('[data-pc-refresh]').forEach(function (old) {
      var name = old.getAttribute('data-pc-refresh');
      var fresh = page.querySelector('[data-pc-refresh="' + name + '"]');
      if (fresh && !busy(old)) {
        put(old, fresh);
      }
    });
  }

  function again() {
    window.setTimeout(step, PERIOD * Math.min(12, 1 + failures));
  }

  function step() {
    if (!moving()) { return; }
    if (document.hidden) { again(); return; }
    window.fetch(window.location.href, {credentials: 'same-origin', redirect: 'error'}).then(function (answer) {
      if (!answer.ok) { throw new Error(answer.status); }
      return answer.text();
    }).then(function (text) {
      failures = 0;
      replace(text);
      stale(false);
    }).catch(function () {
      failures += 1;
      stale(true);
    }).then(again);
  }

  document.addEventListener('DOMContentLoaded', function () {
    if (moving()) { again(); }
  });
}());
