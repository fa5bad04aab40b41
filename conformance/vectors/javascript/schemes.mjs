// What every scheme does to attention, written from the formulas of spec/ alone: an implementation that knows no Python.
// A scheme is a function of settings and parameters and returns what its form has:
//   bias(h, i, j)                     added to the logits, before any scale
//   place(row, position, role, n)     rotation: a row of q or k at its position, in a context of n tokens
//   encode(position)                  embedding: the vector that is added
//   term(h, q, k, i, j, scale)        what is added to scale · q·k; -Infinity hides the key
//   value(h, i, j)                    what is added to the value that query i sees at key j, or null
//   content(h, q, k)                  in place of scale · q·k
// It throws a RangeError for positions that the scheme has no meaning for.
// Positions are numbers, arrays of numbers on several axes, or null for a token that has none.

export const dot = (a, b) => a.reduce((sum, x, n) => sum + x * b[n], 0);
const range = (n) => Array.from({ length: n }, (_, m) => m);
const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const plus = (a, b) => a.map((x, n) => x + b[n]);
const minus = (i, j, sign) => (sign === "key_minus_query" ? j - i : i - j);

function refuse(outside, says) {
  if (outside) throw new RangeError(says);
}

// The vector, matrix … of a parameter at leading indices.
export function at(array, ...indices) {
  let [start, size] = [0, array.data.length];
  indices.forEach((index, axis) => {
    size /= array.shape[axis];
    start += index * size;
  });
  return size === 1 && indices.length === array.shape.length ? array.data[start] : array.data.slice(start, start + size);
}

function alibi(s) {
  const biased = s.num_biased_heads ?? s.num_heads;
  const series = (count) => {
    if (count === 0) return [];
    if (s.slope_rule === "geometric") return range(count).map((h) => 2 ** ((-s.bias_max * (h + 1)) / count));
    const p = 2 ** Math.floor(Math.log2(count));
    const first = range(p).map((h) => 2 ** ((-s.bias_max * (h + 1)) / p));
    return [...first, ...range(count - p).map((r) => 2 ** ((-s.bias_max * (2 * r + 1)) / (2 * p)))];
  };
  const half = s.distance === "half_half" ? series(biased / 2) : null;
  const slopes = half ? [...half, ...half] : series(biased);
  const cell = (h, i, j) => {
    if (s.distance === "key_only") return slopes[h] * j;
    if (s.distance === "causal") return j <= i ? -slopes[h] * (i - j) : 0;
    if (s.distance === "half_half" && (h < biased / 2 ? j > i : j < i)) return -Infinity;
    return -slopes[h] * Math.abs(i - j);
  };
  return { scaleBias: s.scale_bias, bias: (h, i, j) => (h < biased ? cell(h, i, j) : 0) };
}

function t5(s, { table }) {
  const oneWay = s.bidirectional ? Math.floor(s.num_buckets / 2) : s.num_buckets;
  const exact = Math.floor(oneWay / 2);
  const bucket = (r) => {
    const base = s.bidirectional && r > 0 ? oneWay : 0;
    const n = s.bidirectional ? Math.abs(r) : Math.max(-r, 0);
    if (n < exact) return base + n;
    const [S, E, D, N] = [oneWay - exact, exact, s.max_distance, n].map(BigInt); // whole numbers, no logarithm
    let t = S - 1n;
    while (N ** S < D ** t * E ** (S - t)) t -= 1n;
    return base + exact + Number(t);
  };
  const row = (i, j) => bucket(minus(i, j, s.sign));
  return { bias: (h, i, j) => (s.cross_attention ? 0 : at(table, row(i, j), h)) };
}

function clipped(s, { table }) {
  const K = s.max_distance;
  const row = (i, j) => {
    const d = i - j;
    if ((s.directions === "past" && d < 0) || (s.beyond === "zero" && Math.abs(d) > K)) return null;
    if (s.directions !== "both") return Math.min(Math.abs(d), K);
    return clip(minus(i, j, s.sign), -K, K) + K;
  };
  return {
    bias: (h, i, j) => {
      const r = row(i, j);
      return r === null ? 0 : at(table, r, s.heads === "own" ? h : 0);
    },
  };
}

function windowRow(s, i, j) {
  return s.window_size.reduce((row, W, axis) => {
    const d = minus(i[axis], j[axis], s.sign);
    refuse(Math.abs(d) >= W, `${i} and ${j} do not lie within one window`);
    return row * (2 * W - 1) + d + W - 1;
  }, 0);
}

function swin(s, { table }) {
  return { bias: (h, i, j) => (i === null || j === null ? 0 : at(table, windowRow(s, i, j), h)) };
}

function beit(s, { table }) {
  const D = table.shape[0];
  const row = (i, j) => {
    if (i === null) return j === null ? D - 1 : D - 3;
    return j === null ? D - 2 : windowRow(s, i, j);
  };
  return { bias: (h, i, j) => at(table, row(i, j), h) };
}

function swin_v2(s, { cpb_in, cpb_bias, cpb_out, logit_scale }) {
  const windows = s.pretrained_window_size ?? s.window_size;
  const coordinate = (d, W) => {
    if (s.coordinates === "paper") return Math.sign(d) * Math.log1p(Math.abs(d));
    const u = (8 * d) / Math.max(W - 1, 1);
    return (Math.sign(u) * Math.log2(1 + Math.abs(u))) / Math.log2(8);
  };
  const length = (x) => Math.max(Math.sqrt(dot(x, x)), 1e-12);
  return {
    bias: (h, i, j) => {
      if (i === null || j === null) return 0;
      const c = windows.map((W, axis) => coordinate(i[axis] - j[axis], W));
      const units = range(s.hidden).map((m) => Math.max(0, dot(at(cpb_in, m), c) + at(cpb_bias, m)));
      return 16 / (1 + Math.exp(-dot(at(cpb_out, h), units)));
    },
    content: (h, q, k) => {
      const temperature = Math.exp(Math.min(at(logit_scale, h), Math.log(100)));
      return (dot(q, k) / (length(q) * length(k))) * temperature;
    },
  };
}

function sinusoidal(s) {
  const [D, t2t] = [s.embed_dim, s.layout === "t2t"];
  const count = t2t ? Math.floor(D / 2) : Math.ceil(D / 2);
  const θ = range(count).map((m) => s.base ** (t2t ? -m / Math.max(count - 1, 1) : (-2 * m) / D));
  return {
    encode: (p) => {
      const e = new Array(D).fill(0);
      θ.forEach((w, m) => {
        const [sine, cosine] = s.layout === "interleaved" ? [2 * m, 2 * m + 1] : [m, count + m];
        e[sine] = Math.sin(p * w);
        if (cosine < D) e[cosine] = Math.cos(p * w);
      });
      return e;
    },
  };
}

function learned(s, { table }) {
  return {
    encode: (p) => {
      refuse(p < 0 || p >= s.max_position, `there is no vector for position ${p}`);
      return at(table, p + s.first_row);
    },
  };
}

function shaw(s, { rel_k, rel_v }) {
  const [K, unclipped] = [s.max_distance, s.tables.startsWith("relative_key")];
  const published = unclipped ? "query_minus_key" : "key_minus_query";
  const row = (i, j) => {
    const d = minus(i, j, s.sign === "published" ? published : s.sign);
    refuse(unclipped && Math.abs(d) > K, `there is no vector for distance ${d}`);
    return clip(d, -K, K) + K;
  };
  return {
    term: (h, q, k, i, j, scale) => {
      const a = at(rel_k, row(i, j));
      return scale * (dot(q, a) + (s.tables === "relative_key_query" ? dot(k, a) : 0));
    },
    value: (h, i, j) => (unclipped ? null : at(s.tables === "separate" ? rel_v : rel_k, row(i, j))),
  };
}

function music_transformer(s, { rel_k, rel_v }) {
  const M = s.max_distance;
  const row = (i, j) => (-M < j - i && j - i <= (s.variant === "unmasked" ? M - 1 : 0) ? j - i + M - 1 : null);
  const block = (p) => Math.floor(p / (s.block_length ?? Math.ceil(M / 4)));
  const sees = (i, j) => s.variant !== "local" || (block(i) - 1 <= block(j) && block(j) <= block(i));
  const vector = (table, h, r) => (s.per_head ? at(table, h, r) : at(table, r));
  return {
    term: (h, q, k, i, j, scale) => {
      const r = row(i, j);
      if (!sees(i, j)) return -Infinity;
      return r === null ? 0 : scale * dot(q, vector(rel_k, h, r));
    },
    value: (h, i, j) => {
      const r = row(i, j);
      const without = s.value_term === "none" || (s.value_term === "not_first_block" && block(i) <= 0);
      return without || r === null ? null : vector(rel_v, h, r);
    },
  };
}

function transformer_xl(s, p) {
  const [H, D, N, M, n] = [s.num_heads, s.head_dim, s.max_distance, s.memory_length, s.segment_length];
  const E = s.d_model ?? H * D;
  const distance = (i, j) => {
    const d = s.clamp_len === null ? i - j : Math.min(i - j, s.clamp_len);
    return s.clamp_len !== null && s.variant === "xlnet" ? Math.max(d, -s.clamp_len) : d;
  };
  const waves = (d) => {
    const angles = range(E / 2).map((m) => d * 10000 ** ((-2 * m) / E));
    if (s.variant === "bidirectional") return angles.flatMap((x) => [Math.sin(x), Math.cos(x)]);
    return [...angles.map(Math.sin), ...angles.map(Math.cos)];
  };
  const sees = (i, j) => {
    if (s.same_length) return i - j < M;
    return n === null || j >= Math.floor(i / n) * n - M;
  };
  const about = (h, q, i, j) => {
    if (s.variant !== "learned") {
      const asks = plus(q, at(p.pos_bias_v, h));
      const R = waves(distance(i, j));
      return range(D).reduce((sum, d) => sum + asks[d] * dot(at(p.w_pos, h * D + d), R), 0);
    }
    if (j > i) return 0;
    const r = N - 1 - Math.min(i - j, N - 1);
    return dot(q, at(p.r_emb, r, h)) + at(p.r_bias, r, h);
  };
  return {
    term: (h, q, k, i, j, scale) =>
      sees(i, j) ? scale * (dot(at(p.pos_bias_u, h), k) + about(h, q, i, j)) : -Infinity,
  };
}

function deberta(s, p) {
  const [H, D] = [s.num_heads, s.head_dim];
  const N = s.version === "v1" ? s.max_distance : s.num_buckets ?? Math.max(Math.floor(s.max_distance / 2), 2);
  const bucket = (distance) => {
    const most = s.max_distance - 1;
    const r = s.clamp ? clip(distance, -most, most) : distance;
    const m = Math.floor(N / 2);
    if (Math.abs(r) <= m) return r;
    const [A, B, C, e] = [most, m, Math.abs(r), m - 1].map(BigInt); // whole numbers, no logarithm
    let t = 0;
    while (t < N - m && A ** BigInt(t) * B ** e < C ** e * B ** BigInt(t)) t += 1;
    return Math.sign(r) * (m + t);
  };
  const row = (i, j) => clip((s.version === "v1" ? i - j : bucket(i - j)) + N, 0, 2 * N - 1);
  const vector = (side, h, r) => {
    if (!s.share_att_key) return at(p[`pos_${side}`], h, r);
    const read = at(p.rel_embeddings, r);
    return range(D).map((d) => dot(read, at(p[`w_${side}`], h * D + d)) + at(p[`b_${side}`], h * D + d));
  };
  return {
    term: (h, q, k, i, j, scale) => {
      const toPosition = s.terms === "p2c" ? 0 : dot(q, vector("key", h, row(i, j)));
      const read = s.indices === "code" ? row(i, j) : row(j, i);
      return scale * (toPosition + (s.terms === "c2p" ? 0 : dot(k, vector("query", h, read))));
    },
  };
}

const turns = (s) => (s.scaling === "yarn" ? [s.beta_slow ?? 1, s.beta_fast ?? 32] : [s.low_freq_factor ?? 1, s.high_freq_factor ?? 4]);

function keptShare(s, θ, r) {
  const [[slow, fast], L] = [turns(s), s.original_max_position];
  if (s.scaling !== "yarn" || s.ramp !== "code") {
    return θ.map((w) => clip(((L * w) / (2 * Math.PI) - slow) / (fast - slow), 0, 1));
  }
  const pair = (beta) => (r * Math.log(L / (2 * Math.PI * beta))) / (2 * Math.log(s.base));
  const [floor, ceil] = s.truncate ? [Math.floor, Math.ceil] : [(x) => x, (x) => x];
  const [a, b] = [Math.max(floor(pair(fast)), 0), Math.min(ceil(pair(slow)), r - 1)];
  return θ.map((_, m) => 1 - clip((m - a) / (a < b ? b - a : 0.001), 0, 1));
}

function frequencies(s, r, width, n) {
  let base = s.base;
  if (s.scaling === "ntk") base *= s.factor ** (width / (width - 2));
  if (s.scaling === "dynamic") {
    const longest = Math.max(n, s.max_position);
    base *= ((s.factor * longest) / s.max_position - (s.factor - 1)) ** (width / (width - 2));
  }
  const θ = range(r / 2).map((m) => base ** ((-2 * m) / width));
  if (s.scaling === "linear") return θ.map((w) => w / s.factor);
  if (s.scaling !== "yarn" && s.scaling !== "llama3") return θ;
  const kept = keptShare(s, θ, r);
  return θ.map((w, m) => kept[m] * w + ((1 - kept[m]) * w) / s.factor);
}

function magnitude(s) {
  if (s.scaling !== "yarn") return 1;
  const grown = (scale) => 0.1 * scale * Math.log(s.factor) + 1;
  return s.attention_factor ?? (s.mscale === null ? grown(1) : grown(s.mscale) / grown(s.mscale_all_dim));
}

function turned(row, p, θ, pairs, gain) {
  const out = row.slice();
  pairs.forEach(([a, b], m) => {
    const [c, s] = [Math.cos(p * θ[m]), Math.sin(p * θ[m])];
    out[a] = gain(m) * (row[a] * c - row[b] * s);
    out[b] = gain(m) * (row[a] * s + row[b] * c);
  });
  return out;
}

function rope(s) {
  const r = s.rotary_dim ?? s.head_dim;
  const width = s.partial === "proportional" ? s.head_dim : r;
  const pairs = range(r / 2).map((m) => (s.layout === "interleaved" ? [2 * m, 2 * m + 1] : [m, m + width / 2]));
  const μ = magnitude(s);
  return { place: (row, p, role, n) => turned(row, p, frequencies(s, r, width, n), pairs, () => μ) };
}

function xpos(s) {
  const r = s.rotary_dim ?? s.head_dim;
  const θ = range(r / 2).map((m) => s.base ** ((-2 * m) / r));
  const ζ = range(r / 2).map((m) => (2 * m + 0.4 * r) / (1.4 * r));
  const pairs = range(r / 2).map((m) => [2 * m, 2 * m + 1]);
  return {
    place: (row, p, role, n) => {
      const centre = s.centre === "floor" ? Math.floor(n / 2) : Math.ceil(n / 2);
      const power = ((role === "query" ? 1 : -1) * (p - centre)) / s.scale_base;
      return turned(row, p, θ, pairs, (m) => ζ[m] ** power);
    },
  };
}

const none = () => ({});

export const schemes = {
  alibi, beit, clipped, deberta, learned, music_transformer, none, rope, shaw, sinusoidal, swin, swin_v2, t5, transformer_xl, xpos,
};
