import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { serverOptions } from "../src/settings";

const from = (values: Record<string, unknown>) => serverOptions((name) => values[name]);

test("what is not set is left to the project", () => {
  assert.deepEqual(from({ gpu: "", target: "  ", select: [], runtime: null }), {});
});

test("what is set is sent, false too", () => {
  const values = { gpu: "h100-80gb", assume: ["seq_len=4096"], ignore: ["MEM3"], prices: false };
  assert.deepEqual(from(values), values);
});

test("settings of the extension alone are not sent", () => {
  assert.deepEqual(from({ path: "/opt/memlint", "trace.server": "verbose" }), {});
});

test("defaults of the package are what is not set", () => {
  const described = JSON.parse(readFileSync("package.json", "utf8"));
  const properties = described.contributes.configuration.properties;
  assert.deepEqual(serverOptions((name) => properties[`memlint.${name}`].default), {});
});
