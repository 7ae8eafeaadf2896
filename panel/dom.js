// SPDX-License-Identifier: Apache-2.0
// Elements, made and kept. Nothing here, or anywhere in the page, makes an element of a text: what comes from outside becomes text
// nodes and attributes that are not addresses.

/** An element. Of the attributes, `text` is its text, `on` an object of listeners; null and false are left out. */
export function element(name, attributes = {}, ...children) {
        const made = document.createElement(name);

        for (const [key, value] of Object.entries(attributes)) {
                if (value === null || value === undefined || value === false)
                        continue;
                if (key === "text")
                        made.textContent = value;
                else if (key === "on")
                        Object.entries(value).forEach(([event, listener]) => made.addEventListener(event, listener));
                else
                        made.setAttribute(key, value === true ? "" : value);
        }
        made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
        return made;
}

/** Sets the text if it differs, so that a selection stays selected. */
export function say(node, text) {
        if (node.textContent !== text)
                node.textContent = text;
}

export function mark(node, name, value) {
        if (value === null || value === undefined || value === false)
                node.removeAttribute(name);
        else if (node.getAttribute(name) !== String(value))
                node.setAttribute(name, value);
}

const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => {
        const isCut = target.scrollHeight > target.clientHeight || target.scrollWidth > target.clientWidth;

        mark(target, "tabindex", isCut ? 0 : null);
}));

/** What may be larger than its place: while it is, Tab comes to it, so that keys scroll it in every browser. Gives the node. */
export function scrolling(node) {
        sizes.observe(node);
        return node;
}

/**
 * Makes the children of `parent` those of `items`, in their order. An existing child is updated in
 * its place, and the child that has the focus is never taken out to be put elsewhere, which would
 * lose it: the others move around it.
 */
export function keep(parent, items, keyOf, make, update) {
        const wanted = new Set(items.map(keyOf));
        const there = new Map();

        for (const child of [...parent.children]) {
                if (wanted.has(child.dataset.key))
                        there.set(child.dataset.key, child);
                else
                        child.remove();
        }
        let at = parent.firstElementChild;
        for (const item of items) {
                const key = keyOf(item);
                let node = there.get(key);

                if (!node) {
                        node = make(item);
                        node.dataset.key = key;
                }
                if (node === at || (node.isConnected && node.contains(document.activeElement)))
                        at = node.nextElementSibling;
                else
                        parent.insertBefore(node, at);
                update?.(node, item);
        }
}

/** Calls it now, and at this interval while the page is visible, until the signal. */
export function every(milliseconds, signal, call) {
        let timer = null;
        const tick = async () => {
                timer = null;
                if (!document.hidden)
                        await call();
                if (!signal.aborted)
                        timer = setTimeout(tick, milliseconds);
        };
        const look = () => {
                if (!document.hidden && timer !== null) {
                        clearTimeout(timer);
                        tick();
                }
        };

        document.addEventListener("visibilitychange", look, { signal });
        signal.addEventListener("abort", () => clearTimeout(timer));
        tick();
}
