// What the tests measure in the page; an object of functions.
({
  /** Everything that one can reach and use just now: of the open dialog, if there is one. */
  interactive() {
    const root = document.querySelector('dialog[open]') ?? document;
    return [...root.querySelectorAll('a[href], button, input, select, textarea, summary')]
      .filter((one) => !one.disabled && (one.checkVisibility() || one.matches('.skip')));
  },

  describe(one) {
    return one === document.body || !one ? null
      : `${one.tagName.toLowerCase()} ${(one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent ?? one.textContent).trim()}`;
  },

  all() {
    return this.interactive().map((one) => this.describe(one));
  },

  /** Who has the focus, and whether one can see it. */
  focused() {
    const one = document.activeElement;
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    return {
      name: this.describe(one),
      visible: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && box.width > 0 && box.bottom > 0 && box.top < innerHeight,
    };
  },

  /** Text whose contrast with what lies behind it is below 4.5 to 1. */
  faint() {
    const parse = (text) => {
      const [red, green, blue, alpha = 1] = text.match(/[\d.]+/g).map(Number);
      return { red, green, blue, alpha };
    };
    const over = (top, below) => {
      const mix = (name) => top[name] * top.alpha + below[name] * (1 - top.alpha);
      return { red: mix('red'), green: mix('green'), blue: mix('blue'), alpha: 1 };
    };
    const luminance = ({ red, green, blue }) => {
      const [r, g, b] = [red, green, blue].map((value) => {
        const part = value / 255;
        return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (one) => {
      const layers = [];
      for (let each = one; each; each = each.parentElement) {
        const colour = parse(getComputedStyle(each).backgroundColor);
        layers.push(colour);
        if (colour.alpha === 1) break;
      }
      return layers.reverse().reduce((below, layer) => over(layer, below), { red: 255, green: 255, blue: 255, alpha: 1 });
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const seen = new Set();
    const look = (one, pseudo, text) => {
      const below = behind(one);
      const colour = over(parse(getComputedStyle(one, pseudo).color), below);
      const [high, low] = [luminance(colour), luminance(below)].sort((a, b) => b - a);
      const ratio = (high + 0.05) / (low + 0.05);
      if (ratio < 4.5) found.push(`${text.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
    };
    while (walker.nextNode()) {
      const one = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || seen.has(one) || !one.checkVisibility() || one.closest('script, style, .unseen, noscript')) continue;
      seen.add(one);
      look(one, null, walker.currentNode.data);
    }
    for (const one of document.querySelectorAll('input, select, td[data-column]')) {
      if (one.checkVisibility()) look(one, one.matches('td') ? '::before' : null, one.value ?? one.dataset.column);
    }
    return found;
  },

  /** How much wider the page is than the window, and what sticks out. */
  overflow() {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    return [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > width + 1)
      .map((one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 30)}`);
  },
})
