// main.mjs lets the Go test call SDKs of npm. It reads one JSON object a line from the standard input, and answers each
// with one line on the standard output: {id, result}, {id, refused: why} or {id, fault: why}. It works on one request at
// a time, so that the clock and the network belong to that request.
import { readdirSync } from "node:fs";
import { Console } from "node:console";
import { createInterface } from "node:readline";
import { useClock } from "./lib/clock.mjs";
import { useDocuments } from "./lib/network.mjs";

// The SDKs may print, but the standard output is for answers.
const answer = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
globalThis.console = new Console(process.stderr, process.stderr);

// A promise that an SDK leaves behind, or an error in one of its callbacks, must not end the process.
for (const event of ["unhandledRejection", "uncaughtException"]) {
  process.on(event, (error) => console.error("unhandled:", error));
}

const subjects = new Map();

// The data of a subject that the Go test reads; the functions stay here.
const dataOf = ({ verify, read, sign, recorded, vectors, documents, ...data }) => ({
  ...data,
  reads: read !== undefined,
  signs: sign !== undefined,
  recorded: recorded !== undefined,
  vectors: vectors !== undefined,
});

const operations = {
  // list loads the files of subjects. They import their SDK only when it is called, so this is fast.
  async list() {
    const files = readdirSync(new URL("./providers/", import.meta.url)).filter((name) => name.endsWith(".mjs")).sort();
    const modules = await Promise.all(files.map((name) => import(`./providers/${name}`)));
    const list = [];
    modules.forEach((module, i) => {
      for (const subject of [module.default].flat()) {
        const handle = `${files[i]}#${list.length}`;
        subjects.set(handle, subject);
        list.push({ ...dataOf(subject), handle });
      }
    });
    return list;
  },
  async verify({ subject, request, key }) {
    let valid;
    try {
      valid = await subjects.get(subject).verify(request, key);
    } catch (error) {
      return { refused: String(error?.message ?? error) || "an error without a message" };
    }
    if (typeof valid !== "boolean") {
      throw new Error(`verify returned ${valid}: it must return true or false, or throw`);
    }
    return valid ? { result: true } : { refused: "it is not valid" };
  },
  // read reads the event into the SDK's class for it, or throws.
  async read({ subject, request, key }) {
    try {
      await subjects.get(subject).read(request, key);
    } catch (error) {
      return { refused: String(error?.stack ?? error) };
    }
    return { result: true };
  },
  // sign returns the headers, body and query that change; undefined leaves them as they are, and a null header removes it.
  async sign({ subject, request, key }) {
    const { headers = {}, body = request.body, query = request.query } = await subjects.get(subject).sign(request, key);
    const merged = new Map(Object.entries(request.headers));
    for (const [name, value] of Object.entries(headers)) {
      if (value === null) merged.delete(name.toLowerCase());
      else merged.set(name.toLowerCase(), String(value));
    }
    return { result: { ...request, headers: Object.fromEntries(merged), body, query } };
  },
  async recorded({ subject }) {
    return await all(subjects.get(subject).recorded);
  },
  async vectors({ subject }) {
    return await all(subjects.get(subject).vectors);
  },
};

const all = async (list) => ({ result: typeof list === "function" ? await list() : list });

async function perform(command) {
  const { op, subject, request, key } = command;
  if (op === "list") return { result: await operations.list() };
  useClock(request?.now);
  useDocuments(subjects.get(subject)?.documents?.(request, key) ?? {});
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("the SDK has not answered for 20 s")), 20_000);
  });
  try {
    return await Promise.race([operations[op](command), late]);
  } finally {
    clearTimeout(timer);
    useClock();
  }
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const command = JSON.parse(line);
  let reply;
  try {
    reply = await perform(command);
  } catch (error) {
    reply = { fault: String(error?.stack ?? error) };
  }
  answer(JSON.stringify({ id: command.id, ...reply }) + "\n");
}
process.exit(0);
