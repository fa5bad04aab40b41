#!/usr/bin/env node
// Reads vectors of position encodings and checks answers against them: those of schemes.mjs, or yours.
//
//   node check.mjs DIR [--scheme rope] [--level attention] [--dtype float32] [--with ./my_rope.mjs]
//
// --with names a module that exports answer(case, file): an object of flat arrays by the names of the case's outputs, or
// undefined for a case it does not take; it throws where the result is to be "refused". Exit codes: 0 all hold, 1 some do not, 2 nothing could be checked.
// It needs Node 18 and nothing else.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { answer, gradients } from "./attention.mjs";
import { differences, number } from "./comparing.mjs";

const VERSION = 1;
const SHOWN = 5; // differences that are printed of a scheme

class Unusable extends Error {}

const demand = (holds, says) => {
  if (!holds) throw new Unusable(says);
};

function options(words) {
  const found = { dtype: "float32" };
  const names = new Set(["scheme", "level", "dtype", "with"]);
  for (let n = 0; n < words.length; n += 1) {
    const name = words[n].replace(/^--/, "");
    if (!words[n].startsWith("--")) found.folder = words[n];
    else demand(names.has(name) && ++n < words.length, `--${name}: options are ${[...names].map((x) => `--${x} VALUE`).join(", ")}`);
    if (words[n - 1] === `--${name}`) found[name] = words[n];
  }
  demand(found.folder, "usage: node check.mjs DIR [--scheme NAME] [--level NAME] [--dtype float32] [--with MODULE]");
  return found;
}

function read(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new Unusable(`${path} is not JSON: ${error.message}`);
  }
}

function files(folder, scheme) {
  demand(existsSync(folder), `${folder} does not exist`);
  const names = readdirSync(folder).filter((name) => name.endsWith(".json") && name !== "index.json" && !name.includes("schema"));
  const wanted = names.filter((name) => !scheme || name === `${scheme}.json`);
  demand(wanted.length, `${folder} holds no vectors${scheme ? ` of ${scheme}` : ""}`);
  return wanted.sort().map((name) => {
    const file = read(join(folder, name));
    demand(file.format === "relpos vectors", `${name} is not a file of vectors`);
    demand(file.format_version === VERSION, `${name} has format ${file.format_version}, this reads ${VERSION}`);
    return file;
  });
}

// Every array has as many numbers as its shape says, and every number is one.
function malformed(value, path = "") {
  if (value === null || typeof value !== "object") return [];
  if (!Array.isArray(value.data)) return Object.entries(value).flatMap(([name, inner]) => malformed(inner, `${path}/${name}`));
  const size = value.shape.reduce((product, n) => product * n, 1);
  const lists = ["data", "allowed_float32", "M", "P"].filter((name) => value[name]);
  const short = lists.filter((name) => value[name].length !== size).map((name) => `${path}: ${name} has not ${size} numbers`);
  const strange = value.data.filter((x) => x !== null && Number.isNaN(number(x)));
  return [...short, ...(strange.length ? [`${path}: ${strange[0]} is not a number`] : [])];
}

function attempted(implementation, one, file) {
  try {
    return [implementation(one, file), null];
  } catch (error) {
    return [undefined, error];
  }
}

function checked(one, file, dtype, implementation) {
  const broken = malformed({ inputs: one.inputs, outputs: one.outputs, gradients: one.gradients ?? {} });
  if (broken.length) return broken.map((says) => ({ says }));
  const [got, refusal] = attempted(implementation, one, file);
  if (got === undefined && !refusal) return undefined;
  if (one.result === "refused") return refusal ? [] : [{ says: "it is answered, not refused" }];
  if (refusal) return [{ says: `it is refused: ${refusal.message}` }];
  const ours = implementation === answer;
  const found = Object.entries(one.outputs).flatMap(([name, want]) => differences(name, got?.[name], want, file.tolerance, dtype, ours));
  if (!ours || !one.gradients) return found;
  const slopes = gradients(one, file);
  return [...found, ...Object.entries(one.gradients).flatMap(([n, w]) => differences(`gradient of ${n}`, slopes[n], w, file.tolerance, dtype, ours))];
}

// Mistakes that every failing case catches and no passing one does.
function looksLike(file, results) {
  const failing = results.filter((r) => r.found.length);
  const levels = new Set(failing.map((r) => r.one.level));
  const passing = results.filter((r) => !r.found.length && levels.has(r.one.level));
  return Object.entries(file.faults)
    .filter(([name]) => failing.every((r) => r.one.catches.includes(name)) && !passing.some((r) => r.one.catches.includes(name)))
    .map(([, fault]) => fault.says);
}

function told({ one, found }, file) {
  const caught = one.catches.map((name) => file.faults[name].says);
  const lines = found.slice(0, 1).map((f) => f.says ?? `${f.where}: got ${f.got}, expected ${f.expected}, off by ${f.off}, allowed ${f.allowed}`);
  const more = found.length > 1 ? [`and ${found.length - 1} more numbers`] : [];
  return [
    `  ${one.id} (${one.laws.join(", ")}): ${one.comment}`,
    ...[...lines, ...more].map((line) => `    ${line}`),
    `    this case fails for: ${caught.slice(0, 6).join("; ") || "no known mistake"}${caught.length > 6 ? "; …" : ""}`,
  ];
}

function verdict(file, cases, { dtype }, implementation) {
  const results = [];
  for (const one of cases) {
    const found = checked(one, file, dtype, implementation);
    if (found !== undefined) results.push({ one, found });
  }
  const failing = results.filter((r) => r.found.length);
  const { told_apart, faults } = file.coverage;
  const state = failing.length ? `${failing.length} of ${results.length} vectors FAIL` : `${results.length} vectors hold`;
  console.log(`${file.scheme}: ${state} (they tell ${told_apart} of ${faults} mistakes apart)`);
  if (failing.length) {
    const like = looksLike(file, results);
    if (like.length) console.log(`  Looks like: ${like.slice(0, 4).join("; or ")}`);
    for (const result of failing.slice(0, SHOWN)) for (const line of told(result, file)) console.log(line);
    if (failing.length > SHOWN) console.log(`  and ${failing.length - SHOWN} more vectors`);
  }
  return [results.length, failing.length];
}

async function main() {
  const asked = options(process.argv.slice(2));
  const implementation = asked.with ? (await import(pathToFileURL(resolve(asked.with)))).answer : answer;
  demand(typeof implementation === "function", `${asked.with} does not export a function named answer`);
  let [checkedCases, failed] = [0, 0];
  for (const file of files(asked.folder, asked.scheme)) {
    demand(file.tolerance.dtypes[asked.dtype], `--dtype must be one of ${Object.keys(file.tolerance.dtypes).join(", ")}`);
    const fits = (one) => (!asked.level || one.level === asked.level) && (asked.dtype === "float64" || one.dtypes.includes(asked.dtype));
    const [count, wrong] = verdict(file, file.cases.filter(fits), asked, implementation);
    checkedCases += count;
    failed += wrong;
  }
  demand(checkedCases, "no vector was checked: no file has any of that level and dtype");
  console.log(failed ? `${failed} of ${checkedCases} vectors fail (exit 1)` : `all ${checkedCases} vectors hold (exit 0)`);
  process.exitCode = failed ? 1 : 0;
}

main().catch((error) => {
  if (!(error instanceof Unusable)) throw error;
  console.error(`${error.message}\nNothing was checked (exit 2).`);
  process.exitCode = 2;
});
