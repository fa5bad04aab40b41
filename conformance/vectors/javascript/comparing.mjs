// Compares as the judge does: per element, with a bound that is derived from the sizes of the terms that were rounded.

const INFINITIES = { Infinity: Infinity, "-Infinity": -Infinity };
const LOOSE = 2e-2; // M, P and allowed_float32 have three digits, each rounded up

// A number of a file: JSON has no infinities, so they are strings.
export const number = (x) => (typeof x === "number" ? x : INFINITIES[x] ?? NaN);

// The largest error that is rounding, by the rule of the file's header.
export function allowedError(want, index, tolerance, dtype) {
  const { u, u_position, eta } = tolerance.dtypes[dtype];
  const summed = Math.max(1, Math.sqrt(want.n / tolerance.summed_in_c));
  const P = want.P ? want.P[index] : 0;
  return tolerance.c[want.kind] * (summed * u * want.M[index] + u_position * P + want.n * eta);
}

const place = (index, shape) => {
  const found = [];
  for (let axis = shape.length - 1, rest = index; axis >= 0; axis -= 1) {
    found.unshift(rest % shape[axis]);
    rest = Math.floor(rest / shape[axis]);
  }
  return found;
};

// Elements of an output that are off by more than rounding.
export function differences(name, got, want, tolerance, dtype, bounds) {
  if (!got || got.length !== want.data.length) {
    return [{ says: `${name}: ${got ? `${got.length} numbers` : "nothing"} came, ${want.data.length} are owed` }];
  }
  const found = [];
  want.data.forEach((raw, index) => {
    const [expected, rule] = [number(raw), allowedError(want, index, tolerance, dtype)];
    const allowed = dtype === "float32" ? want.allowed_float32[index] : rule;
    const where = `${name}[${place(index, want.shape).join(", ")}]`;
    if (bounds && dtype === "float32" && !(Math.abs(rule - allowed) <= LOOSE * allowed)) {
      found.push({ says: `${where}: allowed_float32 is ${allowed}, M, P and n give ${rule}` });
    }
    const off = got[index] === expected ? 0 : Math.abs(got[index] - expected);
    if (!(off <= allowed)) found.push({ where, got: got[index], expected, off, allowed });
  });
  return found;
}
