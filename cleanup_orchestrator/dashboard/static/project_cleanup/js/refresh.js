/* Keeps the moving parts of a page up to date.
 *
 * An element with data-pc-refresh="NAME" is replaced every five seconds by the one of the same name in a new copy of the
 * page, as long as it has data-pc-moving="true". Without JavaScript the user loads the page again.
 */
(function () {
  'use strict';
  var PERIOD = 5000;
  var failures = 0;

  function moving() {
    return document.querySelector('[data-pc-refresh][data-pc-moving="true"]');
  }

  function busy(element) {
    // Somebody who reads or types there is not disturbed: an open list of choices or a focused link would be lost.
    return element.contains(document.activeElement) && document.activeElement !== document.body;
  }

  function replace(text) {
    var page = new DOMParser().parseFromString(text, 'text/html');
    document.querySelectorAll('[data-pc-refresh]').forEach(function (old) {
      var name = old.getAttribute('data-pc-refresh');
      var fresh = page.querySelector('[data-pc-refresh="' + name + '"]');
      if (fresh && !busy(old)) {
        old.replaceWith(document.importNode(fresh, true));
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
    }).catch(function () {
      failures += 1;
    }).then(again);
  }

  document.addEventListener('DOMContentLoaded', function () {
    if (moving()) { again(); }
  });
}());
