"use strict";

const at = (id) => document.getElementById(id);
let seed = 0;

// Creates an element. Strings are inserted as text, never as HTML.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.map((one) => (one instanceof Node ? one : String(one))));
  return made;
}

// Titles that begin with # are for columns of numbers.
function table(titles, rows) {
  const head = titles.map((title) => title.startsWith("#")
    ? element("th", { class: "number" }, title.slice(1)) : element("th", {}, title));
  return element("table", {}, element("tr", {}, ...head), ...rows);
}

const row = (cells, attributes = {}) => element("tr", attributes, ...cells);
const cell = (content, kind = "") => element("td", { class: kind }, content);

async function ask(name, question) {
  const response = await fetch("/" + name, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text: at("text").value, ...question }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

// Sends a request and shows the answer in the section `name`.
async function fill(name, question, show) {
  const button = at(name + "-button");
  button.disabled = true;
  at("error").textContent = "";
  try {
    at(name + "-result").replaceChildren(...show(await ask(name, question)));
  } catch (error) {
    at(name + "-result").replaceChildren();
    at("error").textContent = error.message;
  }
  button.disabled = false;
}

function showRead(answer) {
  const paragraphs = answer.paragraphs.map((sentences, p) =>
    element("div", { class: "paragraph" }, ...sentences.map((sentence, s) =>
      element("div", { class: "sentence", title: sentence.text },
        ...sentence.pieces.map((piece, t) =>
          element("span", { class: "piece" }, piece,
            element("small", {}, `${p}·${s}·${t}`)))))));
  const sentences = answer.paragraphs.flat().length;
  const sum = `${answer.paragraphs.length} paragraphs, ${sentences} sentences, ` +
    `${answer.num_pieces} word pieces; a row fits ${answer.capacity}`;
  return [...paragraphs, element("p", { class: "sum" }, sum)];
}

function showAttention(answer) {
  const names = {
    same_sentence: "same sentence",
    same_paragraph: "same paragraph",
    special_tokens: "special tokens",
  };
  const rows = Object.entries(answer.shares).map(([name, share]) => row([
    cell(names[name]),
    cell((100 * share).toFixed(1) + " %", "number"),
    cell((100 * answer.uniform[name]).toFixed(1) + " %", "number"),
  ]));
  const shown = [
    element("img", { src: answer.image, alt: "Attention heat map" }),
    table(["Attention of word pieces to", "#share", "#if uniform"], rows),
  ];
  if (answer.num_sentences < answer.num_sentences_of_text) {
    shown.push(element("p", { class: "sum" }, `The first ` +
      `${answer.num_sentences} of ${answer.num_sentences_of_text} sentences fit into a row`));
  }
  return shown;
}

function showMasks(answer) {
  const rows = answer.masks.flatMap((best, number) => best.map((filling) => row([
    cell(number + 1, "number"),
    cell((100 * filling.probability).toFixed(1) + " %", "number"),
    cell(filling.piece),
  ])));
  return [table(["#mask", "#probability", "word piece"], rows)];
}

function showOrder(answer) {
  const placeGiven = new Map(answer.shuffled.map((number, place) => [number, place]));
  const rows = answer.found.map((number, place) => row([
    cell(place + 1, "number"),
    cell(placeGiven.get(number) + 1, "number"),
    cell(number + 1, number === place ? "number right" : "number"),
    cell(answer.confidences[place].toFixed(2), "number"),
    cell(answer.sentences[number]),
  ]));
  const right = answer.found.filter((number, place) => number === place).length;
  const groups = answer.num_groups > 1 ? `, in ${answer.num_groups} groups` : "";
  return [
    table(["#found", "#shuffled", "#true", "#confidence", "sentence"], rows),
    element("p", { class: "sum" },
      `${right} of ${rows.length} in their true places${groups}`),
  ];
}

function showNeighbours(answer) {
  const result = element("div");
  function choose(chosen) {
    const numbers = answer.sentences.map((_, number) => number);
    numbers.sort((a, b) => answer.cosines[chosen][b] - answer.cosines[chosen][a]);
    const others = [chosen, ...numbers.filter((number) => number !== chosen)];
    const rows = others.map((number) => row([
      cell(number === chosen ? "" : answer.cosines[chosen][number].toFixed(4), "number"),
      cell(answer.sentences[number]),
    ], { class: number === chosen ? "chosen" : "", "data-number": number }));
    for (const one of rows) {
      one.addEventListener("click", () => choose(Number(one.dataset.number)));
    }
    result.replaceChildren(table(["#cosine", "sentence (click one)"], rows));
  }
  choose(0);
  const warning = answer.warning ? [element("p", { class: "sum" }, answer.warning)] : [];
  return [...warning, result];
}

function options(select, values) {
  select.replaceChildren(...values.map(([value, text]) =>
    element("option", { value }, text)));
}

async function start() {
  const model = await (await fetch("/model")).json();
  at("model").textContent = `${model.run} (${model.model}) of ${model.checkpoint}; ` +
    `reads ${model.features.join(", ")}`;
  at("text").value = model.example;
  const upTo = (count) => [...Array(count).keys()].map((one) => [one, one]);
  options(at("layer"), upTo(model.layers));
  for (const [name, reason] of Object.entries(model.reasons)) {
    const section = at(name);
    section.classList.add("off");
    for (const one of section.querySelectorAll("button, input, select")) one.disabled = true;
    section.append(element("p", { class: "reason" }, reason));
  }
  const read = () => fill("read", {}, showRead);
  const attend = () => fill(
    "attention", { layer: Number(at("layer").value) }, showAttention);
  at("read-button").addEventListener("click", read);
  at("attention-button").addEventListener("click", attend);
  at("masks-button").addEventListener("click", () =>
    fill("masks", { text: at("masked-text").value }, showMasks));
  at("order-button").addEventListener("click", () =>
    fill("order", { seed: ++seed }, showOrder));
  at("neighbours-button").addEventListener("click", () =>
    fill("neighbours", {}, showNeighbours));
  await read();
  document.body.dataset.ready = "yes";
}

start();
