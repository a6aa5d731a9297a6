// Bundles the extension into dist, or with --tests its tests into out.

import { readdirSync } from "node:fs";
import { build } from "esbuild";

const common = { bundle: true, platform: "node", format: "cjs", target: "node20" };

if (process.argv.includes("--tests")) {
  await build({
    ...common,
    entryPoints: readdirSync("test").filter((name) => name.endsWith(".test.ts")).map((name) => `test/${name}`),
    outdir: "out",
    alias: { vscode: "./test/fakes/vscode.ts", "vscode-languageclient/node": "./test/fakes/client.ts" },
    logLevel: "warning",
  });
} else {
  await build({
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    minify: true,
    logLevel: "warning",
  });
}
