// npm run build: src/ and the packages that it names -> dist/, with the licences of what was bundled.
import { build } from "esbuild";
import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");

await rm(dist, { recursive: true, force: true });
await mkdir(dist);
const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.js", style: "src/style.css" },
  outdir: join(dist, "assets"),
  bundle: true,
  splitting: true, // the chart's library is loaded when there is a chart
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none", // licenses.txt has them whole
  metafile: true,
  logLevel: "warning",
});
await cp(join(here, "src/index.html"), join(dist, "index.html"));
await cp(join(here, "src/favicon.svg"), join(dist, "favicon.svg"));

/** The packages whose files are in the bundle, with their folders. */
function bundled() {
  const found = new Map();
  for (const file of Object.keys(metafile.inputs)) {
    const match = /^(.*node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(file);
    if (match) found.set(match[2], join(here, match[1]));
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** A package's name, version and licence, whole where it has a file of it. */
async function licence([name, folder]) {
  const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
  if (!license && !file) throw new Error(`${name} has no licence`);
  const text = file ? await readFile(join(folder, file), "utf8") : "(see its package.json)";
  return `${name} ${version}: ${license ?? "see below"}\n\n${text.trim()}\n`;
}

const texts = await Promise.all(bundled().map(licence));
await writeFile(join(dist, "licenses.txt"), texts.join(`\n${"-".repeat(80)}\n\n`));
