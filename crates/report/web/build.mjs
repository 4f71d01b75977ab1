// Bundles the page's script and style into ../assets, and writes their hashes and that of
// their sources beside them.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const assets = new URL("../assets/", import.meta.url);
const banner = readFileSync("node_modules/uplot/LICENSE", "utf8").trim().split("\n").join("\n * ");
const version = JSON.parse(readFileSync("node_modules/uplot/package.json", "utf8")).version;
const notice = `/*! Contains uPlot ${version}\n * ${banner}\n */`;

await build({
  entryPoints: [
    { in: "src/main.js", out: "report" },
    { in: "src/report.css", out: "report" },
  ],
  outdir: assets.pathname,
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  target: ["chrome110", "firefox110", "safari16"],
  legalComments: "none",
  banner: { js: notice, css: notice },
  logLevel: "warning",
}).catch(() => process.exit(1));

const sha256 = (bytes, as) => createHash("sha256").update(bytes).digest(as);

// Every source, in the order of its name: its name, its length and its bytes.
const sources = createHash("sha256");
const names = ["build.mjs", "package.json", "package-lock.json", ...readdirSync("src").map((name) => `src/${name}`)].sort();
for (const name of names) {
  const bytes = readFileSync(name);
  sources.update(`${name} ${bytes.length}\n`);
  sources.update(bytes);
}

const script = readFileSync(new URL("report.js", assets));
const style = readFileSync(new URL("report.css", assets));
if (/<\/script|<!--/i.test(script.toString()) || /<\/style|<!--/i.test(style.toString())) {
  throw new Error("the bundle would end its own element");
}
writeFileSync(
  new URL("HASHES", assets),
  `sources ${sources.digest("hex")}\nscript sha256-${sha256(script, "base64")}\nstyle sha256-${sha256(style, "base64")}\n`,
);
console.log(`report.js ${script.length} bytes, report.css ${style.length} bytes`);
