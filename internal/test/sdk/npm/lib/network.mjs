// The network of the SDKs. It holds the documents of the request at hand, such as the sender's certificate. Any other
// address is an error: nothing is ever sent.
import { EventEmitter } from "node:events";
import http from "node:http";
import https from "node:https";
import { syncBuiltinESMExports } from "node:module";
import { Readable } from "node:stream";

let documents = {};

// useDocuments sets the texts by address.
export function useDocuments(texts) {
  documents = texts;
}

function find(address) {
  const text = documents[address];
  if (text === undefined) throw new Error(`the guard has no network: ${address}`);
  return text;
}

globalThis.fetch = async (input) => {
  const text = find(String(input?.url ?? input));
  return new Response(text, { headers: { "content-type": text.startsWith("{") ? "application/json" : "text/plain" } });
};

function addressOf(input) {
  if (typeof input === "string" || input instanceof URL) return String(input);
  return `${input.protocol ?? "https:"}//${input.hostname ?? input.host}${input.path ?? "/"}`;
}

function request(input, ...rest) {
  const respond = rest.find((value) => typeof value === "function");
  const sent = new EventEmitter();
  Object.assign(sent, { write() {}, end() {}, setTimeout() {}, destroy() {}, abort() {}, setHeader() {} });
  setImmediate(() => {
    let text;
    try {
      text = find(addressOf(input));
    } catch (error) {
      sent.emit("error", error);
      return;
    }
    const response = Object.assign(Readable.from([Buffer.from(text)]), { statusCode: 200, headers: {} });
    respond?.(response);
    sent.emit("response", response);
  });
  return sent;
}

for (const module of [http, https]) {
  module.get = request;
  module.request = request;
}
syncBuiltinESMExports();
