// The payloads that the Go module go-playground/webhooks recorded, for subjects in JavaScript.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

// recorded returns the payloads of a folder. headers returns the headers of the payload with a name.
export function recorded(folder, headers) {
  const cwd = new URL("../..", import.meta.url);
  const list = ["list", "-m", "-f", "{{.Dir}}", "github.com/go-playground/webhooks/v6"];
  const path = `${execFileSync("go", list, { cwd, encoding: "utf8" }).trim()}/testdata/${folder}`;
  return readdirSync(path)
    .filter((file) => file.endsWith(".json"))
    .map((file) => {
      const name = file.slice(0, -".json".length);
      return { name, request: { headers: headers(name), body: readFileSync(`${path}/${file}`, "utf8") } };
    });
}
