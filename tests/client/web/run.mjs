// run.mjs TEST_FILE: runs one file of tests. Exits 77 with the reason where there is no browser to run it in.
import {spawnSync} from "node:child_process";
import {existsSync, mkdirSync} from "node:fs";

if (!process.env.CHROMIUM || !existsSync(process.env.CHROMIUM)) {
  console.log("skipped: no Chromium (Debian package chromium) was found when the build was configured");
  process.exit(77);
}
mkdirSync(process.env.SCREENSHOTS, {recursive: true});
const {status} = spawnSync(process.execPath, ["--test", process.argv[2]], {stdio: "inherit"});
process.exit(status ?? 1);
