// The shop as one page: every view is drawn after a fetch. What the server does with an order is not said here.
const main = document.querySelector("main");
const make = (tag, text, act) => {
  const node = main.appendChild(document.createElement(tag));
  node.textContent = text;
  if (act) node.onclick = act;
  return node;
};
const ask = async (path, body) => {
  const options = body ? { method: "POST", body: JSON.stringify(body) } : {};
  return (await fetch(path, options)).json();
};
const show = async (draw) => {
  document.body.dataset.ready = "no";
  const done = await draw();
  main.replaceChildren();
  done();
  document.body.dataset.ready = "yes";
};
const title = (text) => { document.title = `${text} - Fell & Fern`; make("h1", text); };

const list = () => show(async () => {
  const { department, products } = await ask(`/api/list${location.search}`);
  return () => {
    title(department);
    for (const product of products) make("button", product.name, () => item(product));
    make("button", "Basket", basket);
  };
});

const item = (product, size = "") => show(async () => () => {
  title(product.name);
  make("p", `$${product.price}. ${size ? `Size ${size} is chosen.` : "No size is chosen."}`);
  if (!size) for (const one of ["S", "M", "L"]) make("button", `Size ${one}`, () => item(product, one));
  make("button", "Quick buy", async () => order(await ask("/api/quick", { id: product.id, size })));
  make("button", "Add to basket", async () => {
    if (size) await ask("/api/add", { id: product.id, size });
    if (size) basket();
  });
  make("button", "Back to the list", () => list());
});

const basket = () => show(async () => {
  const { lines } = await ask("/api/basket");
  return () => {
    title("Basket");
    make("p", lines.length ? lines.join("; ") : "Your basket is empty.");
    if (lines.length) make("button", "Checkout", async () => order(await ask("/api/checkout", {})));
    if (lines.length) make("button", "Empty the basket", async () => { await ask("/api/empty", {}); basket(); });
    make("button", "Continue shopping", () => list());
  };
});

const order = ({ number }) => show(async () => () => {
  title("Thank you");
  make("p", `Your order ${number} is on its way.`);
});

list();
