// Answers a case: contribution, logits and attention output of a scheme, and gradients by differences, in float64.

import { at, dot, schemes } from "./schemes.mjs";

const H = 2 ** -16; // step of the differences: short, since a kink of a network may lie within it

const matrix = (array, ...indices) => {
  const columns = array.shape[array.shape.length - 1];
  const flat = at(array, ...indices);
  return Array.from({ length: flat.length / columns }, (_, row) => flat.slice(row * columns, (row + 1) * columns));
};

// Positions of one sample: numbers, arrays of numbers on several axes, null for a token without a position.
function positions(array, sample, axes) {
  const perSample = array.shape.length === (axes > 1 ? 3 : 2);
  const flat = perSample ? at(array, sample) : array.data;
  if (axes === 1) return flat;
  return Array.from({ length: flat.length / axes }, (_, n) => flat.slice(n * axes, (n + 1) * axes)).map((p) => (p[0] === null ? null : p));
}

const axesOf = (settings) => settings.window_size?.length ?? 1;

function sample(one, scheme, b) {
  const { inputs } = one;
  const axes = axesOf(one.settings);
  const [I, J] = [positions(inputs.query_positions, b, axes), positions(inputs.key_positions, b, axes)];
  return { I, J, n: inputs.sequence_length?.[b], inputs, scheme, b };
}

function placed({ scheme, n }, rows, where, role) {
  if (scheme.place && role !== "value") return rows.map((row, m) => scheme.place(row, where[m], role, n));
  if (scheme.encode) return rows.map((row, m) => scheme.encode(where[m]).map((e, c) => row[c] + e));
  return rows;
}

const group = (inputs, name, h) => Math.floor(h / (inputs.q.shape[1] / inputs[name].shape[1]));

function logitsOf(here, h) {
  const { scheme, inputs, b, I, J } = here;
  const [rawQ, rawK] = [matrix(inputs.q, b, h), matrix(inputs.k, b, group(inputs, "k", h))];
  const [q, k] = [placed(here, rawQ, I, "query"), placed(here, rawK, J, "key")];
  return I.map((i, a) =>
    J.map((j, c) => {
      const content = scheme.content ? scheme.content(h, rawQ[a], rawK[c]) : inputs.scale * dot(q[a], k[c]);
      const bias = scheme.bias ? scheme.bias(h, i, j) * (scheme.scaleBias ? inputs.scale : 1) : 0;
      return content + bias + (scheme.term ? scheme.term(h, rawQ[a], rawK[c], i, j, inputs.scale) : 0);
    }),
  );
}

function visible({ inputs, b, I, J }, a, c) {
  if (inputs.causal && J[c] > I[a]) return false;
  if (!inputs.mask) return true;
  const [, heads, Lq, Lk] = inputs.mask.shape;
  return inputs.mask.data[((b * heads) * Lq + a) * Lk + c] === 1;
}

function outputOf(here, h, logits) {
  const { scheme, inputs, b, I, J } = here;
  const v = placed(here, matrix(inputs.v, b, group(inputs, "v", h)), J, "value");
  return I.map((i, a) => {
    const seen = J.map((_, c) => c).filter((c) => visible(here, a, c) && logits[a][c] !== -Infinity);
    const most = Math.max(...seen.map((c) => logits[a][c]));
    const weights = seen.map((c) => Math.exp(logits[a][c] - most));
    const total = weights.reduce((sum, w) => sum + w, 0);
    const out = new Array(v[0].length).fill(0); // a query without keys stays at 0
    seen.forEach((c, n) => {
      const extra = scheme.value ? scheme.value(h, i, J[c]) : null;
      out.forEach((_, d) => (out[d] += (weights[n] / total) * (v[c][d] + (extra ? extra[d] : 0))));
    });
    return out;
  });
}

function contribution(one, scheme) {
  const { inputs } = one;
  const samples = Array.from({ length: inputs.batch }, (_, b) => b);
  if (scheme.encode) return { embedding: inputs.positions.data.map((p) => scheme.encode(p)).flat() };
  if (scheme.place) {
    const turn = (name, side, role) =>
      samples.map((b) => {
        const here = sample(one, scheme, b);
        return Array.from({ length: inputs[name].shape[1] }, (_, h) => placed(here, matrix(inputs[name], b, h), here[side], role));
      });
    return { "rotated query": turn("q", "I", "query").flat(3), "rotated key": turn("k", "J", "key").flat(3) };
  }
  const heads = Array.from({ length: one.settings.num_heads }, (_, h) => h);
  const rows = one.outputs.bias.shape.length === 4 ? samples : [0];
  const bias = (b, h) => {
    const { I, J } = sample(one, scheme, b);
    return I.map((i) => J.map((j) => scheme.bias(h, i, j)));
  };
  return { bias: rows.map((b) => heads.map((h) => bias(b, h))).flat(3) };
}

// Outputs of a case by name, flat.
export function answer(one, file) {
  const scheme = schemes[file.scheme](one.settings, one.inputs.params ?? {});
  if (one.level === "contribution") return contribution(one, scheme);
  const [logits, output] = [[], []];
  for (let b = 0; b < one.inputs.batch; b += 1) {
    for (let h = 0; h < one.inputs.q.shape[1]; h += 1) {
      const here = sample(one, scheme, b);
      const score = logitsOf(here, h);
      logits.push(score.flat());
      if (one.level === "attention") output.push(outputOf(here, h, score).flat());
    }
  }
  return { logits: logits.flat(), output: output.flat() };
}

// Gradients of Σ output · cotangent with respect to every input, by differences of fourth order.
export function gradients(one, file) {
  const found = {};
  for (const name of Object.keys(one.gradients)) {
    const leaf = one.inputs[name] ?? one.inputs.params[name];
    found[name] = leaf.data.map((x, n) => {
      const sums = [-2, -1, 1, 2].map((step) => {
        leaf.data[n] = x + step * H;
        return answer(one, file);
      });
      leaf.data[n] = x;
      return slope(one.cotangents, sums);
    });
  }
  return found;
}

// Element by element, so that a number that does not move adds nothing, not even a rounding.
function slope(cotangents, [back2, back1, on1, on2]) {
  let sum = 0;
  for (const [name, g] of Object.entries(cotangents)) {
    g.data.forEach((weight, n) => {
      const change = 8 * (on1[name][n] - back1[name][n]) - (on2[name][n] - back2[name][n]);
      if (Number.isFinite(change)) sum += (weight * change) / (12 * H);
    });
  }
  return sum;
}
